"""Which tests were skipped, and whether they may be: skips.py [--strict] LOG ...

LOG: what tests printed, such as ctest's build/Testing/Temporary/LastTest.log. With --strict, as CI runs it, the exit
status is 1 where a test was skipped for a reason that is not below, or that does not hold on this machine.
"""

import argparse
import collections
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Callable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import gpu_count

SKIPPED = re.compile(r"^SKIPPED (.+?): (.+)$", re.MULTILINE)  # as run_unittest.py and gtest_main.cpp write it


def compute_capabilities():
    """Returns those of the GPUs of this machine, as 10 * major + minor."""
    if gpu_count() == 0:
        return []
    listed = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"],
                            capture_output=True, text=True, check=False).stdout
    return [int(capability.replace(".", "")) for capability in listed.split()]


def has_hopper():
    return 90 in compute_capabilities() and os.environ.get("HOPPER") != "0"


def has_fp8():
    return any(capability >= 89 for capability in compute_capabilities())


@dataclasses.dataclass
class Reason:
    """What a test says, why it may be skipped for that, and where it may not although it says so."""

    text: str
    why: str
    holds: Callable[[], bool] = lambda: True


MAY_SKIP = [
    Reason("no GPU", "scripts/dev/gpu_check.sh runs them where there is one", lambda: gpu_count() == 0),
    Reason("fewer than two GPUs", "scripts/dev/gpu_check.sh runs them where there are two", lambda: gpu_count() < 2),
    Reason("no Hopper GPU", "other GPUs, the CPU and HOPPER=0 are without wgmma and TMA", lambda: not has_hopper()),
    Reason("no FP8 tensor cores", "GPUs have them from compute capability 8.9 on", lambda: not has_fp8()),
    Reason("no strace", "scripts/setup.sh --tests installs it; GPU machines may lack it",
           lambda: shutil.which("strace") is None),
    Reason("takes 310 s; set LONG_TESTS=1", "one wait of five minutes; for changes of the ranks' warm-up"),
    Reason("the sanitizer must be loaded first", "before the library that the test loads; it runs without sanitizers"),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("logs", nargs="+", metavar="LOG", type=pathlib.Path)
    arguments = parser.parse_args()
    skipped = collections.defaultdict(list)
    for log in arguments.logs:
        for name, reason in SKIPPED.findall(log.read_text(errors="replace")):
            skipped[reason].append(name)
    listed = {reason.text: reason for reason in MAY_SKIP}
    wrong = False
    for reason, names in skipped.items():
        print(f"skipped, {len(names)}: {reason}", end="")
        if reason in listed and listed[reason].holds():
            print(f" ({listed[reason].why})")
            continue
        wrong = True
        print(" - which is not so here" if reason in listed else " - no reason in tests/runner/skips.py")
        for name in names:
            print(f"  {name}")
    if not skipped:
        print("skipped: no test")
    return int(arguments.strict and wrong)


if __name__ == "__main__":
    sys.exit(main())
