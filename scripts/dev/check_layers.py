#!/usr/bin/env python3
"""usage: check_layers.py [ROOT]

Checks the rules of docs/architecture.md that a compiler cannot check: includes and links between layers, use of
LibTorch, access to the environment, synchronization with the device. Prints each violation as FILE:LINE and exits 1.
"""
import pathlib
import re
import sys

# A folder of src/ may use itself and the folders before it in this list.
LAYERS = (
    "base files config device text data ops weights model recipes process comm optim run_log eval checkpoint "
    "model_io train report commands"
).split()
# Files (without suffix) and folders that belong to a separate library of their layer.
LIBRARIES = {"data/feeder": "feeder", "weights/artifact": "artifact"}
# Libraries that neither compile nor link with LibTorch.
WITHOUT_TORCH = {"base", "files", "config", "text", "data", "run_log", "report"}
# Kernels and the headers of their launchers also compile without LibTorch.
KERNELS = re.compile(r"ops/.*(\.cuh?|_(kernel|hopper)\.h)|device/launch\.h")
# The only files that read the environment.
ENVIRONMENT = {"config/parse.cpp", "config/launch.cpp"}
# The only file that changes the environment, before a second thread starts: setenv may move memory that getenv
# in another thread or a library is reading.
SET_ENVIRONMENT = "config/environment.cpp"
# Only evaluation may wait for the device to return a number.
ITEM = re.compile(r"eval/.*")

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
GETENV = re.compile(r"\b(secure_)?getenv\b|\b_*environ\b")
SETENV = re.compile(r"\b(setenv|putenv|unsetenv|clearenv)\b")
ITEM_CALL = re.compile(r"(\.|->)\s*(template\s+)?item\s*(<[^;>]*>)?\s*\(")


def without_comments_and_strings(text):
    """Returns the text with comments and literals blanked, except the names of includes; lines are kept."""

    def blank(match):
        line_start = text.rfind("\n", 0, match.start()) + 1
        if re.match(r"\s*#\s*include\s*$", text[line_start : match.start()]):
            return match.group()
        return re.sub(r"[^\n]", " ", match.group())

    return TOKEN.sub(blank, text)


def layer_of(path):
    """Returns the layer of a path relative to src/; None for the main programs in src/ itself."""
    return path.parts[0] if len(path.parts) > 1 and path.parts[0] in LAYERS else None


def library_of(path):
    own = LIBRARIES.get(path.with_suffix("").as_posix())
    return own or LIBRARIES.get(path.parent.as_posix(), layer_of(path))


def included(source, name, src):
    """Returns the included file's path relative to src/, or None if it is not part of this project."""
    for folder in (source.parent, src):
        target = (folder / name).resolve()
        if target.is_file() and target.is_relative_to(src):
            return target.relative_to(src)
    return pathlib.Path(name) if name.split("/")[0] in LAYERS else None


def check_include(source, name, src):
    relative = source.relative_to(src)
    layer = layer_of(relative)
    if layer is None:
        return
    if library_of(relative) in WITHOUT_TORCH and TORCH.match(name):
        yield f"{library_of(relative)} does without LibTorch, but includes {name}"
    if KERNELS.fullmatch(relative.as_posix()) and TORCH.match(name):
        yield f"kernels do without LibTorch, but include {name}"
    target = included(source, name, src)
    if target is None:
        return
    other = layer_of(target)
    if other is None:
        yield f"{layer}/ includes {target}, which belongs to the programs"
    elif LAYERS.index(other) > LAYERS.index(layer):
        yield f"{layer}/ includes {target}, but {other}/ comes after {layer}/"


def check_source(source, src):
    relative = source.relative_to(src).as_posix()
    text = without_comments_and_strings(source.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        include = INCLUDE.match(line)
        if include:
            breaches = list(check_include(source, include.group(2), src))
        else:
            breaches = []
            if GETENV.search(line) and relative not in ENVIRONMENT:
                breaches.append("reads the environment; only " + ", ".join(sorted(ENVIRONMENT)) + " may")
            if SETENV.search(line) and relative != SET_ENVIRONMENT:
                breaches.append(f"changes the environment; only {SET_ENVIRONMENT} may")
            if ITEM_CALL.search(line) and not ITEM.fullmatch(relative):
                breaches.append("waits for the device with .item(); only eval/ may")
        for breach in breaches:
            yield f"src/{relative}:{number}: {breach}"


def all_includes(src):
    """Yields (file, included file) relative to src/, except includes of later layers."""
    for source in sorted(src.rglob("*")):
        if source.suffix not in SUFFIXES or layer_of(source.relative_to(src)) is None:
            continue
        text = without_comments_and_strings(source.read_text(encoding="utf-8"))
        for include in filter(None, map(INCLUDE.match, text.splitlines())):
            target = included(source, include.group(2), src)
            other = layer_of(target) if target else None
            if other and LAYERS.index(other) <= LAYERS.index(layer_of(source.relative_to(src))):
                yield source.relative_to(src), target


def check_links(cmake, includes, src):
    """Yields the differences between the libraries that a layer links and those that its files include."""
    where = f"src/{cmake.relative_to(src)}"
    for match in re.finditer(r"train_gpt_layer\(([^)]*)\)", cmake.read_text(encoding="utf-8")):
        words = match.group(1).split()
        name = words[0]
        links = words[words.index("LINK") + 1 :] if "LINK" in words else []
        reasons = {library_of(target): source for source, target in includes if library_of(source) == name}
        reasons.pop(name, None)
        for other in sorted(reasons.keys() - set(links)):
            yield f"{where}: {name} does not link {other}, which src/{reasons[other]} includes"
        for other in links:
            if other in {*LAYERS, *LIBRARIES.values()} and other not in reasons:
                yield f"{where}: {name} links {other}, which it does not include"


def all_links(src):
    """Returns {library: (its CMakeLists.txt, the targets that it links)}, with LibTorch as "torch"."""
    call = re.compile(r"\b(train_gpt_layer|train_gpt_use_torch|target_link_libraries)\((\w+)([^)]*)\)")
    links = {}
    for cmake in sorted(src.rglob("CMakeLists.txt")):
        for function, name, rest in call.findall(cmake.read_text(encoding="utf-8")):
            words = rest.split()
            targets = links.setdefault(name, (cmake, []))[1]
            if function == "train_gpt_use_torch" or (function == "train_gpt_layer" and "TORCH" in words):
                targets.append("torch")
            if function == "train_gpt_layer":
                words = words[words.index("LINK") + 1 :] if "LINK" in words else []
            targets += ["torch" if re.match("torch(_|::)", word) else word for word in words]
    return links


def path_to_torch(name, links, seen):
    """Returns the chain of links from a library to LibTorch, [name, ..., "torch"], or None."""
    if name == "torch":
        return [name]
    seen.add(name)
    for target in links.get(name, (None, []))[1]:
        rest = path_to_torch(target, links, seen) if target not in seen else None
        if rest:
            return [name, *rest]
    return None


def check_torch_links(src):
    links = all_links(src)
    for name in sorted(WITHOUT_TORCH & links.keys()):
        path = path_to_torch(name, links, set())
        if path:
            where = links[name][0].relative_to(src)
            yield f"src/{where}: {name} does without LibTorch, but links it: {' > '.join(path)}"


def check_circles(includes):
    """Yields the cycles of includes between folders, within a layer too."""
    uses = {}
    for source, target in includes:
        if source.parent != target.parent:
            uses.setdefault(source.parent, {}).setdefault(target.parent, (source, target))
    # A folder that uses none of the remaining ones, or is used by none, is in no cycle.
    left = set(uses)
    while left:
        used = {other for folder in left for other in uses[folder]}
        inner = {folder for folder in left & used if left & uses[folder].keys()}
        if inner == left:
            break
        left = inner
    for folder in sorted(left):
        for other in sorted(left & uses[folder].keys()):
            source, target = uses[folder][other]
            yield f"src/{source}: includes {target}, which closes a circle of folders"


def check(root):
    src = (root / "src").resolve()
    breaches = []
    includes = list(all_includes(src))
    for path in sorted(src.rglob("*")):
        if path.suffix in SUFFIXES:
            breaches += check_source(path, src)
        elif path.name == "CMakeLists.txt":
            breaches += check_links(path, includes, src)
    breaches += check_torch_links(src)
    breaches += check_circles(includes)
    for folder in sorted(path.name for path in src.iterdir() if path.is_dir()):
        if folder not in LAYERS:
            breaches.append(f"src/{folder}/: no such layer; the layers are {' > '.join(LAYERS)}")
    return breaches


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    breaches = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here)
    for breach in breaches:
        print(breach)
    print(f"check_layers: {len(breaches)} breaches" if breaches else "check_layers: clean")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
