"""scripts/dev/gpu_check.sh tests: red where a GPU's test fails beside skipped ones, or is skipped on a GPU that can run it.

With test programs that end as they are told, in a tree of its own, and a nvidia-smi that lists GPUs."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ONE_GPU = 'case $1 in -L) echo "GPU 0: NVIDIA H100" ;; *) echo 9.0 ;; esac'
TWO_GPUS = 'case $1 in -L) printf "GPU %s: NVIDIA H100\\n" 0 1 ;; *) printf "9.0\\n9.0\\n" ;; esac'
OF_RANKS = ("ranks_gpu_test", "repeat_gpu_test", "worlds_gpu_test")
NONE_OF_TWO = "self.skipTest('fewer than two GPUs')"
SUITE = """
import unittest

class Gpu(unittest.TestCase):
    def test_first(self): {}
    def test_second(self): {}
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpu-check-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(SOURCE / "scripts", self.folder / "scripts")
        shutil.copytree(SOURCE / "tests" / "runner", self.folder / "tests" / "runner")
        for folder, names in (("e2e", ("harness.py", "preloaded.py")), ("bench", ("machine.py", "train_run.py"))):
            (self.folder / "tests" / folder).mkdir()
            for name in names:
                shutil.copy(SOURCE / "tests" / folder / name, self.folder / "tests" / folder)
        (self.folder / "build").mkdir()
        shutil.copy("/bin/true", self.folder / "build" / "train_gpt")

    def check(self, gpus, program="exit 0", of_one=("pass", "pass"), of_two=("pass", "pass"), part="tests", **settings):
        """→ exit status; the table is in self.table. `program`: a GoogleTest program, `of_one` and `of_two`: the tests of
        gpu_test.py, and of the files of several ranks."""
        # Longer than a pipe's buffer, as the output of the kernels' tests.
        listing = 'if [ "$2" = --gtest_list_tests ]; then echo OnGpu.; seq -f "  Test%06g" 9999; exit; fi'
        for name, text in (("nvidia-smi", gpus), ("build/ops_gpu_tests", f"{listing}\n{program}")):
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / name).chmod(0o755)
        for name, bodies in {"gpu_test": of_one, **dict.fromkeys(OF_RANKS, of_two)}.items():
            (self.folder / "tests" / "e2e" / f"{name}.py").write_text(SUITE.format(*bodies))
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", PYTHON=sys.executable, **settings)
        for name in ("CUDA_VISIBLE_DEVICES", "BUILD_DIR"):
            environment.pop(name, None)
        done = subprocess.run([self.folder / "scripts" / "dev" / "gpu_check.sh", part], env=environment, capture_output=True,
                              text=True, check=False)
        self.table = done.stdout.split("== summary")[-1]
        return done.returncode

    def test_a_failed_test_is_red_beside_skipped_ones(self):
        self.assertEqual(self.check(TWO_GPUS), 0, self.table)
        self.assertRegex(self.table, r"ops_gpu_tests +ok")
        # The tests of gpu_test.py run in shards.
        for suite, ends in (("of_one", "FAILED (failures=1), OK (skipped=1)"), ("of_two", "FAILED (failures=1, skipped=1)")):
            broken = {suite: ("self.fail('broken on purpose')", "self.skipTest('takes 310 s; set LONG_TESTS=1')")}
            self.assertEqual(self.check(TWO_GPUS, **broken), 1, self.table)
            self.assertIn(f"FAIL exit 1, {ends}", self.table)
        self.assertEqual(self.check(TWO_GPUS, program="echo 'SKIPPED OnGpu.Test: no GPU'; exit 1"), 1, self.table)

    def test_tests_and_speed_of_ranks_can_be_asked_for_alone(self):
        self.assertEqual(self.check(TWO_GPUS, part="rank_tests"), 0, self.table)
        self.assertNotIn("ops_gpu_tests", self.table)
        for name in OF_RANKS:
            self.assertRegex(self.table, rf"{name} +ok")
        self.assertEqual(self.check(TWO_GPUS, of_two=("self.fail('broken on purpose')", "pass"), part="rank_tests"), 1, self.table)
        bench = self.folder / "scripts" / "bench.sh"
        bench.write_text('#!/bin/sh\necho "3.0 s  record.0.1"\necho "$*       ms   ratio  of linear  comm"\necho "8 ranks 60"\nexit $CODE\n')
        for code in (0, 3):
            self.assertEqual(self.check(TWO_GPUS, part="rank_speed", RANKS="4 8", PRESETS="record", CODE=str(code)), code != 0)
            self.assertIn("ranks --ranks 4 8 --presets record       ms   ratio  of linear  comm\n8 ranks 60\n", self.table)

    def test_a_program_that_hangs_is_ended_and_its_output_kept(self):
        self.assertEqual(self.check(ONE_GPU, program="echo at the end; sleep 600", TEST_SECONDS="1"), 1, self.table)
        self.assertRegex(self.table, r"ops_gpu_tests +FAIL exit -9")
        self.assertIn("at the end", (self.folder / "logs" / "gpu_check" / "tests" / "ops_gpu_tests.0.log").read_text())

    def test_what_needs_two_gpus_may_be_skipped_on_one_alone(self):
        for gpus, status in ((ONE_GPU, 0), (TWO_GPUS, 1)):
            self.assertEqual(self.check(gpus, of_two=(NONE_OF_TWO, NONE_OF_TWO)), status, self.table)
            self.assertRegex(self.table, r"ranks_gpu_test +skipped")

    def test_a_program_that_finds_no_gpu_here_is_red(self):
        self.assertEqual(self.check(ONE_GPU, program="echo 'SKIPPED OnGpu.Test: no GPU'; exit 77"), 1, self.table)
        self.assertRegex(self.table, r"skips +FAIL")


if __name__ == "__main__":
    unittest.main()
