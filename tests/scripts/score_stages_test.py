"""scripts/score_stages.sh with a real build on a CPU: a tiny model through every stage of the last record, told to stop
in between."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "bench"))
from final_scores import TINY_LAYERS  # noqa: E402

BUILD = pathlib.Path(os.environ.get("BUILD_DIR", SOURCE / "build"))


class ScoreStages(unittest.TestCase):
    def run_script(self, *command, **chosen):
        """→ what it prints, with no GPU in sight."""
        with tempfile.TemporaryDirectory(prefix="score-stages-test-") as folder:
            no_gpu = pathlib.Path(folder) / "nvidia-smi"
            no_gpu.write_text("#!/bin/sh\nexit 9\n")
            no_gpu.chmod(0o755)
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", BUILD_DIR=str(BUILD),
                               OUT=f"{folder}/out", PYTHON=sys.executable, OMP_NUM_THREADS="1", **chosen)
            done = subprocess.run([SOURCE / "scripts" / command[0], *command[1:]], env=environment,
                                  capture_output=True, text=True, check=False, timeout=250)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_every_stage_has_a_score(self):
        # Six layers have every part of the preset's eleven.
        layers = {name: str(value) for name, value in TINY_LAYERS.items()}
        printed = self.run_script("score_stages.sh", "--stop-after", "2", DATA_PATH="synthetic:documents",
                                  TOKENIZER_PATH="", **layers)
        scores = dict(re.findall(r"^(as trained|averaged|quantised|read back by eval|adapted) +(\d+\.\d{4})  ", printed, re.M))
        self.assertEqual(5, len(scores), printed)
        self.assertEqual(scores["quantised"], scores["read back by eval"], printed)


if __name__ == "__main__":
    unittest.main()
