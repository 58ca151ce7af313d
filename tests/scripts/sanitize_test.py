"""Runs tests/ops/sanitize.py on a program and a compute-sanitizer that only look like them."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "ops" / "sanitize.py"

# gtest's lines; under a tool each test does what FAULTS say of it, and else takes no time.
PROGRAM = """
import fnmatch, json, os, sys, time
tests, faults, tool = json.loads(os.environ["TESTS"]), json.loads(os.environ["FAULTS"]), os.environ.get("TOOL", "plain")
patterns, status = sys.argv[-1].removeprefix("--gtest_filter=").split(":"), 0
for test, ms in tests.items():
    if not any(fnmatch.fnmatch(test, pattern) for pattern in patterns):
        continue
    print(f"[ RUN      ] {test}", flush=True)
    fault, result = faults.get(f"{tool} {test}"), "      OK"
    if fault == "hang":
        time.sleep(600)
    elif fault == "crash":
        os.abort()
    elif fault == "fail":
        result, status = " FAILED ", 1
    elif fault == "skip":
        result = " SKIPPED"
    elif fault:
        print(fault)
    where = ", where GetParam() = 4-byte object <06-00>" if fault == "fail" else ""
    print(f"[ {result} ] {test}{where} ({ms} ms)", flush=True)
if status:
    print("[  FAILED  ] 1 test, listed below:")
sys.exit(status)
"""

TOOL = """
import os, subprocess, sys
print("========= COMPUTE-SANITIZER", flush=True)
tool = sys.argv[2]
at = next(i for i, word in enumerate(sys.argv) if word.endswith("ops_gpu_tests"))
found = int(os.environ.get("FOUND_BY_" + tool, 0))
with subprocess.Popen(sys.argv[at:], env=os.environ | {"TOOL": tool}, stdout=subprocess.PIPE, text=True) as program:
    for line in program.stdout:
        print(line, end="", flush=True)
        found += line.startswith(("========= Invalid", "========= Error: Race"))
status = program.returncode
if status:
    print("========= Target application returned an error")
if tool == "memcheck":
    print(f"========= ERROR SUMMARY: {found} error{'s' * (found != 1)}")
else:
    print(f"========= RACECHECK SUMMARY: {found} hazard{'s' * (found != 1)} displayed ({found} errors, 0 warnings)")
sys.exit(99 if found else status)
"""

# In the order in which gtest runs them: the large ones are not the last.
LARGE, QUICK, LAST = "Dtypes/HeadsGpu.Large/Float", "Dtypes/HeadsGpu.Quick/Float", "Dtypes/HeadsGpu.Last/Half"
TESTS = {LARGE: 900, QUICK: 3, LAST: 4, "MuonGpu.Large": 500, "MuonGpu.Quick": 0}


class Sanitize(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sanitize-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("ops_gpu_tests", PROGRAM), ("compute-sanitizer", TOOL)):
            path = self.folder / name
            path.write_text(f"#!{sys.executable} -IS\n{text}")
            path.chmod(0o755)

    def sanitize(self, *suites, faults=(), seconds=30, **environment):
        """→ exit status; the output's lines are in self.lines, {suite: numbers of its row} in self.rows."""
        command = [sys.executable, SCRIPT, "--seconds", str(seconds), "--out", self.folder / "out",
                   self.folder / "ops_gpu_tests", *suites]
        env = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}", "TESTS": json.dumps(TESTS),
                            "FAULTS": json.dumps(dict(faults))} | environment
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=100)
        self.lines = done.stdout.splitlines()
        rows = filter(None, (re.fullmatch(r"(\w+)((?: +\d+){7})", line) for line in self.lines))
        self.rows = {row.group(1): [int(number) for number in row.group(2).split()] for row in rows}
        return done.returncode

    def seconds_for_a_hang(self):
        """A limit that all others reach, however busy the machine is, before the one that hangs spends the rest of it."""
        began = time.monotonic()
        self.sanitize()
        return 3 + 3 * (time.monotonic() - began)

    def assert_line(self, *parts):
        self.assertTrue(any(all(part in line for part in parts) for line in self.lines), self.lines)

    def is_ours(self, command_line):
        try:
            return os.fsencode(self.folder) in command_line.read_bytes()
        except OSError:  # it has just ended
            return False

    # A row: tests; clean, not reached and errors under memcheck; the same under racecheck.
    CLEAN = {"HeadsGpu": [3, 3, 0, 0, 3, 0, 0], "MuonGpu": [2, 2, 0, 0, 2, 0, 0]}

    def test_all_clean(self):
        self.assertEqual(0, self.sanitize(), self.lines)
        self.assertEqual(self.CLEAN, self.rows)

    def test_a_suite_by_name(self):
        self.assertEqual(0, self.sanitize("HeadsGpu"), self.lines)
        self.assertEqual(["HeadsGpu"], list(self.rows))
        self.assertEqual(1, self.sanitize("HeadsGpu", "TailsGpu"))
        self.assert_line("no test ran of TailsGpu")

    def test_an_error_of_a_test(self):
        report = "========= Invalid __global__ read of size 4 bytes\n=========     at kernel+0x10\n========= "
        self.assertEqual(1, self.sanitize(faults={f"memcheck {QUICK}": report}))
        self.assertEqual({**self.CLEAN, "HeadsGpu": [3, 2, 0, 1, 3, 0, 0]}, self.rows)
        self.assert_line(f"memcheck: reports: 1 ({QUICK})")

    def test_a_hazard_that_only_the_summary_tells(self):
        self.assertEqual(1, self.sanitize("MuonGpu", FOUND_BY_racecheck="1"))
        self.assertEqual([2, 2, 0, 0, 0, 0], self.rows["MuonGpu"][:6])
        self.assertGreater(self.rows["MuonGpu"][6], 0)

    def test_races_of_libraries_are_told_apart_from_others(self):
        race = ("========= Error: Race reported between Read access at {}+0x9b0\n"
                "=========     and Write access at {}+0x47e0 [2640 hazards]\n========= ")
        *of_libraries, of_ours = (race.format(name, name) for name in (
            "nvjet_sm90_tst_192x208", "cudnn_generated_fort_native_sdpa_sm90_flash_bprop",
            "void cudnn::fusion::fmha_reduce_head<true>", "tg::cuda::product"))
        libraries = "\n".join(of_libraries)
        self.assertEqual(0, self.sanitize(faults={f"racecheck {QUICK}": libraries}), self.lines)
        self.assertEqual(self.CLEAN, self.rows)
        self.assert_line("racecheck HeadsGpu", "of cuBLAS's and cuDNN's own kernels: 3 reports")
        self.assertEqual(1, self.sanitize(faults={f"racecheck {QUICK}": f"{libraries}\n{of_ours}"}))
        self.assertEqual({**self.CLEAN, "HeadsGpu": [3, 3, 0, 0, 2, 0, 1]}, self.rows)
        self.assert_line(f"racecheck: reports: 1 ({QUICK})")

    def test_a_failed_test(self):
        self.assertEqual(1, self.sanitize(faults={f"racecheck {LAST}": "fail"}))
        self.assertEqual({**self.CLEAN, "HeadsGpu": [3, 3, 0, 0, 2, 0, 1]}, self.rows)
        self.assert_line(f"racecheck: {LAST} FAILED")

    def test_out_of_time(self):
        seconds = self.seconds_for_a_hang()
        self.assertEqual(0, self.sanitize(faults={f"racecheck {LARGE}": "hang"}, seconds=seconds), self.lines)
        self.assertEqual({**self.CLEAN, "HeadsGpu": [3, 3, 0, 0, 2, 1, 0]}, self.rows)
        self.assert_line("racecheck: not reached: " + LARGE)
        self.assertEqual([], [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if self.is_ours(path)])

    def test_a_suite_without_a_clean_test(self):
        faults = {f"memcheck {test}": "hang" for test in TESTS}
        self.assertEqual(1, self.sanitize("MuonGpu", faults=faults, seconds=self.seconds_for_a_hang()))
        self.assertEqual({"MuonGpu": [2, 0, 2, 0, 2, 0, 0]}, self.rows)

    def test_a_crash(self):
        self.assertEqual(1, self.sanitize(faults={f"memcheck {QUICK}": "crash"}))
        self.assertEqual({**self.CLEAN, "HeadsGpu": [3, 2, 0, 1, 3, 0, 0]}, self.rows)
        self.assert_line(f"memcheck: {QUICK} ended the program")

    def test_nothing_to_check(self):
        self.assertEqual(1, self.sanitize(faults={f"plain {test}": "skip" for test in TESTS}))
        self.assert_line("no test ran; see ")
        self.assertEqual(1, self.sanitize(faults={f"plain {LARGE}": "crash"}))
        self.assert_line("ends with exit status -6")


if __name__ == "__main__":
    unittest.main()
