"""Checks the pages for readers: links and anchors, the syntax of commands, and that the files, flags and settings
that they name exist. Of docs/journal, an archive, only links are checked."""

import functools
import glob
import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
ARCHIVE = sorted((ROOT / "docs/journal").glob("*.md"))

FOLDERS = {"scripts", "configs", "src", "tests", "docs", "cmake", "data", ".ci"}
LAYERS = {folder.name for folder in (ROOT / "src").iterdir() if folder.is_dir()}  # `base/log` is src/base/log.*
MADE = ("data/datasets", "data/tokenizers", "data/quickstart")  # by the programs, not in git
# Variables of others' programs, and flags of theirs that pages name without the program.
OTHERS_VARIABLES = re.compile(r"(OMP|NCCL|CUDA|CUBLAS|TORCH|CCACHE|SLURM|LD)_\w+|PATH|TMPDIR|EMULATION_SLOW_WARPS")
OTHERS_FLAGS = {"--user_defined_symbols", "--gpus", "--bind-to", "--requeue", "--signal", "--max-restarts", "--standalone",
                "--nproc-per-node", "--gpus-per-task", "--nnodes", "--ntasks-per-node", "--cpus-per-task", "--kill-on-bad-exit"}
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=")
PROGRAM = re.compile(r"(?:\./|\.\./|[\w./-]+/)?(train_gpt|make_shards)|(?:\./)?((?:scripts|scripts/dev|data|tests/bench)/\w+\.(?:sh|py))")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@functools.cache
def text_of(path):
    return path.read_text()


@functools.cache
def settings():
    """→ the flags of all settings, which completion knows."""
    done = run(BUILD / "train_gpt", "completion")
    return frozenset(FLAG.findall(re.search(r'settings="(.*)"', done)[1]))


@functools.cache
def commands():
    return frozenset(re.search(r'commands="(.*)"', run(BUILD / "train_gpt", "completion"))[1].split())


@functools.cache
def flags_of(program, command=None):
    """→ the flags of train_gpt's command, of make_shards, or of a script."""
    if program == "train_gpt":
        if command in ("train", "help"):
            return settings() | {"--config", "--help", "--version"}
        said = run(BUILD / "train_gpt", "help", command)
        takes_settings = "--SETTING" in said
        return frozenset(FLAG.findall(said)) | {"--help"} | (settings() | {"--config"} if takes_settings else set())
    if program == "make_shards":
        return frozenset(FLAG.findall(run(BUILD / "make_shards", "--help")))
    # A Python script's flags are in its text, which may import what is not installed.
    said = run(ROOT / program, "--help") if program.endswith(".sh") else text_of(ROOT / program)
    passed_on = settings() | {"--config"} if "TRAIN_GPT_FLAG" in said else set()
    return frozenset(FLAG.findall(said)) | {"--help"} | passed_on


@functools.cache
def flags_of_any():
    sources = [path for pattern in ("scripts/**/*", "data/*.py", "tests/bench/*.py", "tests/e2e/*.py", "src/commands/*.cpp")
               for path in ROOT.glob(pattern) if path.is_file()]
    found = {flag for path in sources for flag in FLAG.findall(text_of(path))}
    own = {flag for name in commands() - {"help"} for flag in flags_of("train_gpt", name)}
    return found | own | flags_of("make_shards") | OTHERS_FLAGS


@functools.cache
def names_in_code():
    paths = [path for pattern in ("src/**/*.cpp", "src/**/*.h", "scripts/**/*", "cmake/*")
             for path in ROOT.glob(pattern) if path.is_file()]
    scripts_names = re.findall(r'\{"(\w+)", "', text_of(ROOT / "src/config/script_names.h"))  # accepted as settings
    return frozenset(re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", "\n".join(map(text_of, paths)))) | {name.upper() for name in scripts_names}


@functools.cache
def variables_of(script):
    """→ what a script, and what it sources, may read from the environment."""
    texts = [text_of(ROOT / name) for name in (script, "scripts/common.sh", "scripts/gpu_common.sh")]
    return frozenset(re.findall(r"\b[A-Z][A-Z0-9_]*\b", "\n".join(texts)))


def is_setting(name):
    return "--" + name.lower().replace("_", "-") in settings()


class Page:
    """A page in parts, each with its line: prose without code, code spans, and fenced blocks with their language."""

    def __init__(self, text):
        self.prose, self.spans, self.blocks, self.headings = [], [], [], []
        fence = None
        for number, line in enumerate(text.splitlines(), 1):
            mark = re.match(r"\s*(`{3,}|~{3,})(\w*)", line)
            if fence:
                if mark and mark[1].startswith(fence) and not mark[2]:
                    fence = None
                else:
                    self.blocks[-1][2].append(line)
            elif mark:
                fence = mark[1]
                self.blocks.append((number, mark[2], []))
            else:
                if heading := re.match(r"#{1,6}\s+(.*?)\s*#*$", line):
                    self.headings.append(heading[1])
                self.spans += [(number, span[1].strip()) for span in re.findall(r"(`+)(.+?)\1(?!`)", line)]
                self.prose.append((number, re.sub(r"(`+)(.+?)\1(?!`)", "", line)))
        self.anchors = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
        counts = {}
        for heading in self.headings:
            heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
            slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            seen = counts[slug] = counts.get(slug, -1) + 1
            self.anchors.add(f"{slug}-{seen}" if seen else slug)


@functools.cache
def page_of(path):
    return Page(path.read_text())


def link_faults(path, page):
    for number, line in page.prose:
        targets = re.findall(r"\]\(<?([^)\s>]*)>?(?:\s+\"[^\"]*\")?\)", line) + re.findall(r"^\s*\[[^\]]+\]:\s*(\S+)", line)
        for target in targets:
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            there = (path.parent / name).resolve() if name else path
            if name and not there.exists():
                yield number, f"link to {target}: no such file"
            elif anchor and there.suffix == ".md" and anchor not in (page if there == path else page_of(there)).anchors:
                yield number, f"link to {target}: no such heading"


def syntax_faults(_, page):
    for number, language, lines in page.blocks:
        if language in ("bash", "sh"):
            done = subprocess.run(["bash", "-n"], input="\n".join(lines), capture_output=True, text=True, check=False)
            if done.returncode:
                yield number, done.stderr.strip()


def words_of(line):
    """→ the words of each command of a line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found = [[]]
    try:
        for word in lexer:
            if re.fullmatch(r"[();<>|&]+", word):
                found.append([])
            else:
                found[-1].append(word)
    except ValueError:  # a quotation over several lines
        return [line.split()]
    return found


def commands_of(page):
    """→ (line, words) of each command in blocks and code spans. A block of another language has lines that are none."""
    for number, language, lines in page.blocks:
        if language not in ("", "bash", "sh", "console"):
            continue
        joined = re.sub(r"\\\n", lambda _: " ", "\n".join(lines))
        for line in joined.splitlines():
            where = number + 1 + next((i for i, raw in enumerate(lines) if raw.split()[:2] == line.split()[:2]), 0)
            for words in words_of(line):
                yield where, words
    for number, span in page.spans:
        for part in re.split(r"&&|;|\s\|\s", span):
            yield number, part.replace("[", " ").replace("]", " ").replace("|", " ").split()


def command_faults(_, page):
    for number, words in commands_of(page):
        at = next((i for i, word in enumerate(words) if PROGRAM.fullmatch(word)), None)
        if at is None or words[0] in ("docker", "cmake", "ls", "cp", "scp", "rsync"):
            continue
        name, script = PROGRAM.fullmatch(words[at]).groups()
        program, command = name or script, None
        if script and not (ROOT / script).is_file():
            continue  # path_faults() names it
        flags = [word.partition("=")[0].rstrip(".,:") for word in words[at + 1:] if FLAG.match(word)]
        if program == "train_gpt":
            command = words[at + 1] if words[at + 1:] and words[at + 1] in commands() else "train"
        for flag in flags:
            if flag not in flags_of(program, command):
                yield number, f"{' '.join(filter(None, (program, command)))} has no flag {flag}"
        for word in words[:at]:
            if (match := ASSIGNMENT.match(word)) and not is_setting(match[1]) and not OTHERS_VARIABLES.fullmatch(match[1]):
                if match[1] not in (variables_of(script) if script else names_in_code()):
                    yield number, f"{program} knows no setting {match[1]}"
    for number, line in page.prose:
        for name in re.findall(r"(?<![\w./{,])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b(?![\w./])", line):
            if not is_setting(name) and not OTHERS_VARIABLES.fullmatch(name) and name not in names_in_code():
                yield number, f"nothing knows the setting {name}"
    for number, span in page.spans:
        if span.startswith("--") and (flag := FLAG.match(span)) and flag[0] not in flags_of_any():
            yield number, f"no program has the flag {flag[0]}"
        if (match := ASSIGNMENT.match(span)) and not is_setting(match[1]) and not OTHERS_VARIABLES.fullmatch(match[1]):
            if match[1] not in names_in_code():
                yield number, f"nothing knows the setting {match[1]}"


def is_there(name):
    """→ whether a path names a file or folder; `*`, {a,b} and words in capitals stand for several."""
    if brace := re.search(r"\{([^{}]*)\}", name):
        return all(is_there(name[:brace.start()] + choice + name[brace.end():]) for choice in brace[1].split(","))
    if (ROOT / name).exists():
        return True
    pattern = re.sub(r"[A-Z][A-Z_]+", "*", name)
    return any(glob.glob(f"{ROOT}/{start}{pattern.rstrip('/')}{end}") for start in ("", "src/") for end in ("", ".*", "_*"))


def path_faults(path, page):
    # `train/loss` is a tag of TensorBoard there.
    folders = FOLDERS if path.name == "metrics.md" else FOLDERS | LAYERS
    words = [(number, word) for number, words in commands_of(page) for word in words]
    for number, word in words:
        word = re.sub(r"^\./|^\.\./(?=src/)|\(\)$|[.,:;]+$", "", word.partition("=")[2] if ASSIGNMENT.match(word) else word)
        if re.fullmatch(r"[a-z0-9_]+\.env", word):
            word = "configs/" + word
        if not re.fullmatch(r"[\w./{},*-]+", word) or "/" not in word or word.startswith(MADE):
            continue
        if word.split("/")[0] in folders and not is_there(word):
            yield number, f"{word}: no such file"


def faults_of(path, page, *checks):
    return [f"{path.relative_to(ROOT)}:{number}: {fault}" for check in checks for number, fault in sorted(set(check(path, page)))]


class DocsTest(unittest.TestCase):
    maxDiff = None

    def check(self, pages, *checks):
        faults = [fault for path in pages if path.exists() for fault in faults_of(path, page_of(path), *checks)]
        self.assertFalse(faults, "\n" + "\n".join(faults))

    def test_links_lead_to_files_and_headings(self):
        self.check(PAGES + ARCHIVE, link_faults)

    def test_commands_are_bash(self):
        self.check(PAGES, syntax_faults)

    def test_files_exist(self):
        self.check(PAGES, path_faults)

    def test_flags_and_settings_are_known(self):
        self.check(PAGES, command_faults)

    def test_commands_are_found(self):
        checked = [words for path in PAGES if path.exists() for _, words in commands_of(page_of(path))
                   if any(map(PROGRAM.fullmatch, words))]
        self.assertGreater(len(checked), 100)

    def test_finds_what_is_wrong(self):
        page = Page("""# A page of MATRIX_LR and MATRICES_LR
[one](README.md) [two](no_such_page.md) [three](#a-page-of-matrix_lr-and-matrices_lr) [four](#no-such-heading) ![five](docs/no_picture.svg) `[six](seven)`
```bash
SEED=1 SEDE=2 build/train_gpt eval --init-from logs/x --seed 3 --sede 4 \\
  --audit --prompt x
scripts/no_such_script.sh && scripts/setup.sh --cpu --no-such-flag # --comment
MORE_TEXT=1 LESS_TEXT=1 scripts/quickstart.sh --iterations 5 --iteration 5
if true
```
`build/make_shards --out x --shufle 1`, `configs/no_preset.env`, `record.env`, `no_record.env`, `base/log`, `base/lag`,
`ops/FOLDER/NAME.h`, `base/log.{h,cpp}`, `base/log.{h,cu}`, `--grad-accum-steps`, `--grad-accum-stops`, `FP8=1`, `FP9=1`.
```
build/train_gpt inspect --plan configs/record.env --plain
a line of output --with-a-flag
```
""")
        path = ROOT / "a_page.md"
        self.assertEqual([
            "a_page.md:2: link to #no-such-heading: no such heading",
            "a_page.md:2: link to docs/no_picture.svg: no such file",
            "a_page.md:2: link to no_such_page.md: no such file"], faults_of(path, page, link_faults))
        self.assertRegex("".join(faults_of(path, page, syntax_faults)), r"^a_page.md:3: .*syntax error")
        self.assertEqual([
            "a_page.md:6: scripts/no_such_script.sh: no such file",
            "a_page.md:10: base/lag: no such file",
            "a_page.md:10: configs/no_preset.env: no such file",
            "a_page.md:10: configs/no_record.env: no such file",
            "a_page.md:11: base/log.{h,cu}: no such file"], faults_of(path, page, path_faults))
        self.assertEqual([
            "a_page.md:1: nothing knows the setting MATRICES_LR",
            "a_page.md:4: train_gpt eval has no flag --prompt",
            "a_page.md:4: train_gpt eval has no flag --sede",
            "a_page.md:4: train_gpt knows no setting SEDE",
            "a_page.md:6: scripts/setup.sh has no flag --no-such-flag",
            "a_page.md:7: scripts/quickstart.sh has no flag --iteration",
            "a_page.md:7: scripts/quickstart.sh knows no setting LESS_TEXT",
            "a_page.md:10: make_shards has no flag --shufle",
            "a_page.md:11: no program has the flag --grad-accum-stops",
            "a_page.md:11: nothing knows the setting FP9",
            "a_page.md:13: train_gpt inspect has no flag --plain"], faults_of(path, page, command_faults))

    def test_anchors_are_those_of_github(self):
        page = Page("# A `b_c`, d & e!\n## [Link](x.md) - 2026-11\n## Same\n## Same\n```\n# no heading\n```\n")
        self.assertEqual({"a-b_c-d--e", "link---2026-11", "same", "same-1"}, page.anchors)


if __name__ == "__main__":
    unittest.main()
