"""A skipped test hides no failed one from ctest, and CI knows each that was skipped."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE / "build"))
UNKNOWN = "no reason that the list has"

# The tests of sample.cpp.
SAMPLE = f"""
    import unittest

    class Sample(unittest.TestCase):
        def Passes(self): pass
        def Fails(self): self.fail("broken on purpose")
        def IsSkipped(self): self.skipTest("no GPU")
        def IsSkippedToo(self): self.skipTest("{UNKNOWN}")
        def IsSkippedInPart(self):
            for part in range(2):
                with self.subTest(part):
                    if part: self.skipTest("no GPU")

    def load_tests(*_):
        return unittest.TestSuite(map(Sample, CHOSEN))
"""
# Tests of one program, and what ctest is to call it.
SUITES = {
    "failed_and_skipped": (["Fails", "IsSkipped"], "Failed"),
    "all_skipped": (["IsSkipped", "IsSkippedToo"], "Skipped"),
    "passed_and_skipped": (["Passes", "IsSkipped"], "Passed"),
    "passed": (["Passes"], "Passed"),
    "skipped_in_part": (["IsSkippedInPart"], "Passed"),
    "none": ([], "Failed"),
}
OF_PYTHON_ALONE = ("skipped_in_part", "none")


def write_project(folder):
    """SUITES, run as the repository's own."""
    for name in ("tests", ".venv"):
        (folder / name).symlink_to(SOURCE / name)
    lines = ["cmake_minimum_required(VERSION 3.25)", "project(suites LANGUAGES NONE)", "enable_testing()",
             f"include({SOURCE}/cmake/Layers.cmake)"]
    for name, (tests, _) in SUITES.items():
        (folder / f"{name}.py").write_text(f"CHOSEN = {tests}\n{textwrap.dedent(SAMPLE)}")
        lines.append(f"train_gpt_python_test(python_{name} {name}.py)")
        if name not in OF_PYTHON_ALONE:
            chosen = ":".join(f"Sample.{test}" for test in tests)
            lines += [f"add_test(NAME gtest_{name} COMMAND {BUILD}/runner_sample --gtest_filter={chosen})",
                      f"train_gpt_may_skip(gtest_{name})"]
    (folder / "CMakeLists.txt").write_text("\n".join(lines))


class SkipsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="skips-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        write_project(cls.folder)
        # The generator that setup.sh installs: a bare machine has no make.
        configured = subprocess.run(["cmake", "-G", "Ninja", "-S", cls.folder, "-B", cls.folder / "build"],
                                    capture_output=True, text=True, check=False)
        if configured.returncode != 0:
            raise AssertionError(configured.stdout + configured.stderr)
        done = subprocess.run(["ctest", "--test-dir", cls.folder / "build", "-j", "2"], capture_output=True, text=True,
                              check=False)
        cls.exit_status = done.returncode
        cls.results = dict(re.findall(r"Test +#\d+: (\w+) \.+[ *]*(\w+)", done.stdout))
        cls.log = (cls.folder / "build" / "Testing" / "Temporary" / "LastTest.log").read_text()

    def skips(self, *lines, gpus="exit 1", **environment):
        """skips.py --strict on a log of these lines, with this script as nvidia-smi → exit status, output."""
        for name, text in (("log", "\n".join(lines)), ("nvidia-smi", f"#!/bin/sh\n{gpus}\n")):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        plain = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "HOPPER")}
        done = subprocess.run(
            [sys.executable, SOURCE / "tests" / "runner" / "skips.py", "--strict", self.folder / "log"],
            env=dict(plain, PATH=f"{self.folder}:{os.environ['PATH']}", **environment), capture_output=True, text=True,
            check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_a_suite_is_skipped_only_where_nothing_ran_and_red_where_a_test_failed(self):
        expected = {f"python_{name}": result for name, (_, result) in SUITES.items()}
        expected.update({f"gtest_{name}": result for name, (_, result) in SUITES.items() if name not in OF_PYTHON_ALONE})
        self.assertEqual(self.results, expected)
        self.assertNotEqual(self.exit_status, 0)

    def test_each_skipped_test_is_found_whatever_became_of_its_suite(self):
        status, output = self.skips(self.log)
        self.assertEqual(status, 1)
        self.assertIn("skipped, 7: no GPU (", output)
        self.assertIn(f"skipped, 2: {UNKNOWN} - ", output)
        for name in ("all_skipped.Sample.IsSkippedToo", "Sample.IsSkippedToo"):
            self.assertIn(f"\n  {name}\n", output)

    def test_what_the_list_has_may_be_skipped_where_it_holds(self):
        two_gpus = 'case $1 in -L) printf "GPU 0\\nGPU 1\\n" ;; *) printf "9.0\\n9.0\\n" ;; esac'
        an_older_gpu = 'case $1 in -L) echo GPU 0 ;; *) echo 8.0 ;; esac'
        self.assertEqual(self.skips("[ OK ] all is well"), (0, "skipped: no test\n"))
        for reason, gpus, status in (("no GPU", "exit 1", 0), ("no GPU", an_older_gpu, 1),
                                     ("fewer than two GPUs", an_older_gpu, 0), ("fewer than two GPUs", two_gpus, 1),
                                     ("no Hopper GPU", an_older_gpu, 0), ("no Hopper GPU", two_gpus, 1),
                                     ("no FP8 tensor cores", an_older_gpu, 0), ("no FP8 tensor cores", two_gpus, 1)):
            with self.subTest(reason, gpus=gpus):
                self.assertEqual(self.skips(f"SKIPPED Sample.Test/0: {reason}", gpus=gpus)[0], status)
        hidden = self.skips("SKIPPED Sample.Test: no GPU", gpus=two_gpus, CUDA_VISIBLE_DEVICES="")
        self.assertEqual(hidden[0], 0)
        for reason, status in (("no Hopper GPU", 0), ("no FP8 tensor cores", 1)):
            with self.subTest(reason, hopper=0):
                self.assertEqual(self.skips(f"SKIPPED Sample.Test: {reason}", gpus=two_gpus, HOPPER="0")[0], status)

    def test_no_test_of_this_build_is_skipped_by_its_words(self):
        listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], check=True, capture_output=True).stdout
        tests = json.loads(listed)["tests"]
        self.assertGreater(len(tests), 20)
        for test in tests:
            properties = {entry["name"]: entry["value"] for entry in test["properties"]}
            self.assertEqual(properties.keys() & {"SKIP_REGULAR_EXPRESSION", "DISABLED"}, set(), test["name"])
            if any(word.endswith("_test.py") for word in test.get("command", [])):
                self.assertIn("run_unittest.py", " ".join(test["command"]))
                self.assertEqual(properties["SKIP_RETURN_CODE"], 77)


if __name__ == "__main__":
    unittest.main()
