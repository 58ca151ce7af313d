"""train_gpt and the PyTorch peer compute the same last record, before recurrence and in it: scripts/bench_recurrence.sh
with a real build, on a CPU."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE / "build"))


class BenchRecurrence(unittest.TestCase):
    def test_the_peer_repeats_the_losses(self):
        with tempfile.TemporaryDirectory(prefix="bench-recurrence-test-") as folder:
            no_gpu = pathlib.Path(folder) / "nvidia-smi"
            no_gpu.write_text("#!/bin/sh\nexit 9\n")
            no_gpu.chmod(0o755)
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", BUILD_DIR=str(BUILD),
                               OUT=f"{folder}/out", PYTHON=sys.executable, OMP_NUM_THREADS="1")
            done = subprocess.run([SOURCE / "scripts" / "bench_recurrence.sh", "--steps", "7"], env=environment,
                                  capture_output=True, text=True, check=False, timeout=250)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        apart = re.findall(r"^(.*): \S+ and \S+ times as fast as .* losses at most (\S+) apart$", done.stdout, re.M)
        self.assertEqual(["train_gpt", "train_gpt, ACTIVATION_RECOMPUTE=light"], [name for name, _ in apart], done.stdout)
        for name, difference in apart:
            self.assertLess(float(difference), 1e-5, name)


if __name__ == "__main__":
    unittest.main()
