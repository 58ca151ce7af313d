"""Every link and every command of the README and the pages of docs/ is tried: links lead somewhere, commands are
shell, and name scripts, files, flags and settings that there are."""

import functools
import os
import pathlib
import re
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE / "build"))
ARCHIVE = SOURCE / "docs" / "journal"  # keeps the words and commands of its day: links alone are tried
PAGES = [*(SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md")),
         *sorted((SOURCE / "docs").glob("*.md"))]
# Files that a page may name, in prose or in a command; the program writes others (logs/, data/datasets/).
NAMED_FILE = re.compile(r"(?<![\w/.])((?:scripts|configs|src|tests|docs|cmake)/[\w./*{},-]+[\w*}])(?![\w/])")
SETTING = re.compile(r"(?<![\w{$-])([A-Z][A-Z0-9_]{2,})=")
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]+)")
# What other programs and the documented shell scripts themselves set.
OTHER_VARIABLES = {"MASTER_ADDR", "MASTER_PORT", "OUT", "TEXT", "TOKENIZER", "PYTHON_COPIES", "MORE_TEXT", "LIBTORCH",
                   "WANDB_PROJECT", "BUILD_DIR", "TMPDIR"}
OTHER_PREFIXES = ("NCCL_", "GLOO_", "TORCH_", "OMP_", "MKL_", "GOMP_", "CUBLAS_", "CUDA_", "SLURM_", "OMPI_", "EMULATION_")


def anchors_of(text):
    """→ the anchors that GitHub gives the headings of a page."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", text), re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 0
        while (anchor if number == 0 else f"{anchor}-{number}") in found:
            number += 1
        found.add(anchor if number == 0 else f"{anchor}-{number}")
    return found


def broken_links(page, text):
    """→ the links of a page whose file or heading is not there."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(target)
        elif anchor and anchor not in anchors_of(text if file == page else file.read_text()):
            found.append(target)
    return found


def missing_files(text):
    """→ the files of this repository that a page names and that are not there. Braces and stars are tried as a shell does."""
    found = []
    for name in NAMED_FILE.findall(text):
        names = [name]
        while any("{" in each for each in names):
            names = [each.replace(match[0], word, 1) for each in names
                     for match in [re.search(r"\{([^}]*)\}", each)] for word in match[1].split(",")]
        for each in names:
            exists = any(SOURCE.glob(each)) or any(SOURCE.glob(each + ".*")) or any(SOURCE.glob(each + "*"))
            if not exists and not re.search(r"NAME|FOLDER|PRESET", each):
                found.append(each)
    return found


def commands_of(text):
    """→ the command lines in fenced blocks without another language than bash, continued lines joined."""
    lines = []
    for language, block in re.findall(r"(?ms)^```(\w*)\n(.*?)^```", text):
        if language in ("", "bash"):
            lines += block.replace("\\\n", " ").splitlines()
    starts = r"(\w+=\S+ )*(scripts/|build\S*/|data/\S+\.py|tests/|train_gpt|torchrun|mpirun|srun|spm_train|source|docker)"
    return [line for line in lines if re.match(starts, line)]


@functools.cache
def settings():
    """→ the flags of train_gpt's settings and of its commands, as the completion knows them."""
    text = subprocess.run([BUILD / "train_gpt", "completion"], check=True, capture_output=True, text=True).stdout
    return set(FLAG.findall(text)) | {"help", "version", "config"} | set(FLAG.findall(subprocess.run(
        [BUILD / "train_gpt", "--help", "all"], check=True, capture_output=True, text=True).stdout))


@functools.cache
def names_of_settings():
    text = subprocess.run([BUILD / "train_gpt", "--help", "all"], check=True, capture_output=True, text=True).stdout
    return {flag.upper().replace("-", "_") for flag in settings()} | set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", text))


@functools.cache
def flags_of_script(script):
    path = SOURCE / script
    shown = subprocess.run([path, "--help"], capture_output=True, text=True)
    return set(FLAG.findall(shown.stdout + shown.stderr + path.read_text()))


def unknown_words(command):
    """→ the flags and settings of a command line that no program here knows."""
    command = re.sub(r"\s#.*", "", command)
    found = [name for name in SETTING.findall(command)
             if name not in names_of_settings() | OTHER_VARIABLES and not name.startswith(OTHER_PREFIXES)]
    mine = re.search(r"(\S*/train_gpt|scripts/\S+|\S*/make_shards|data/\S+\.py|tests/\S+\.py)\b(.*)", command)
    if not mine:
        return found
    program, rest = mine[1], mine[2]
    if program.endswith("make_shards"):
        known = set(FLAG.findall(subprocess.run([BUILD / "make_shards", "--help"], capture_output=True, text=True).stdout))
    elif program.endswith("train_gpt"):
        known = settings()
    else:
        known = flags_of_script(program) | settings()
    return found + ["--" + flag for flag in FLAG.findall(rest) if flag not in known]


class PagesTest(unittest.TestCase):
    maxDiff = None

    def each(self, problems_of, pages=PAGES):
        found = {str(page.relative_to(SOURCE)): problems for page in pages if (problems := problems_of(page, page.read_text()))}
        self.assertEqual(found, {})

    def test_links_lead_somewhere(self):
        self.each(broken_links, [*PAGES, *sorted(ARCHIVE.glob("*.md"))])

    def test_files_that_they_name_are_there(self):
        self.each(lambda page, text: missing_files(text))

    def test_commands_are_shell(self):
        def refused(page, text):
            return [line for line in commands_of(text)
                    if subprocess.run(["bash", "-n"], input=line, text=True, capture_output=True).returncode]
        self.each(refused)

    def test_flags_and_settings_of_commands_are_known(self):
        self.assertGreater(sum(len(commands_of(page.read_text())) for page in PAGES), 40)
        self.each(lambda page, text: [f"{word} in: {line}" for line in commands_of(text) for word in unknown_words(line)])

    def test_a_page_with_mistakes_is_found_out(self):
        text = ("# A page\n[here](#a-page) [away](#nowhere) [gone](docs/none.md)\n`scripts/none.sh` `scripts/test.sh`\n"
                "```\nbuild/train_gpt --no-such-flag 1 --seed 2\nNO_SUCH_SETTING=1 build/train_gpt\nscripts/build.sh --no-such\n```\n")
        page = SOURCE / "README.md"
        self.assertEqual(broken_links(page, text), ["#nowhere", "docs/none.md"])
        self.assertEqual(missing_files(text), ["docs/none.md", "scripts/none.sh"])
        self.assertEqual([unknown_words(line) for line in commands_of(text)],
                         [["--no-such-flag"], ["NO_SUCH_SETTING"], ["--no-such"]])


if __name__ == "__main__":
    unittest.main()
