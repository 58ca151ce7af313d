"""The commands of docs/sweeps.md, block by block as they stand, with a tiny model in the environment."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import BUILD, SOURCE, TOKENIZER, TWO_LAYERS, RunTest  # noqa: E402

PAGE = (SOURCE / "docs" / "sweeps.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.M | re.S)
# What the page's runs choose themselves.
OWN = ("ARTIFACT", "EVAL_STRIDE", "VAL_LOSS_EVERY")


class SweepsTest(RunTest):
    def setUp(self):
        for name in ("build", "configs"):
            if not (self.folder / name).exists():
                (self.folder / name).symlink_to(BUILD if name == "build" else SOURCE / "configs")

    def sh(self, block, **settings):
        tiny = {name: str(value) for name, value in (TWO_LAYERS | {"ITERATIONS": 3, "VE_ENABLED": 0} | settings).items()
                if name not in OWN}
        environment = dict(os.environ, DATA_PATH=str(self.shards), TOKENIZER_PATH=str(TOKENIZER), OMP_NUM_THREADS="1", **tiny)
        exports = BLOCKS[0].splitlines(keepends=True)[0]
        block = block if block.startswith(exports) else exports + block
        # The clock would let a tiny model train for five minutes.
        block = block.replace("MAX_WALLCLOCK_SECONDS=300", "MAX_WALLCLOCK_SECONDS=0").replace("ITERATIONS=500", "ITERATIONS=3")
        return subprocess.run(["bash", "-c", block], cwd=self.folder, env=environment, capture_output=True, text=True,
                              check=False, timeout=200)

    def test_the_loop_reads_scores_and_compares(self):
        done = self.sh(BLOCKS[0] + BLOCKS[1])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        scores = [line.split() for line in (self.folder / "scores.txt").read_text().splitlines()]
        self.assertEqual({f"logs/lr_{lr}/" for lr in (0.02, 0.025, 0.03)}, {run for _, run in scores})
        self.assertEqual(sorted(scores, key=lambda score: float(score[0])), scores)
        self.assertTrue(done.stdout.startswith(scores[0][0]), done.stdout)
        self.assertIn("lr.html: 3 runs", done.stdout)

    def test_a_wrong_setting_ends_the_loop_with_its_line(self):
        done = self.sh(BLOCKS[0], MODEL_DIM=33)
        self.assertRegex(done.stdout, r"^ERROR exit=78 rank=0: .*MODEL_DIM=33")
        self.assertFalse((self.folder / "lr_0.025.txt").exists() and "MODEL_DIM=33" in (self.folder / "lr_0.025.txt").read_text())

    def test_several_runs_side_by_side(self):
        done = self.sh(BLOCKS[2])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for layers in (6, 9):
            self.assertIn(":3/3 ", (self.folder / f"layers_{layers}.txt").read_text())

    def test_a_study_of_seeds(self):
        done = self.sh(BLOCKS[3])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        both, below = (part.splitlines() for part in re.split(r"\n(?=last of each run.*p < )", done.stdout))
        row = next(line.split() for line in both if line.startswith("val_loss"))
        self.assertEqual(("4", "4"), (row[1], row[6]))
        self.assertNotEqual(row[2], row[7])
        self.assertTrue(any(line.startswith("val_loss") for line in below))


if __name__ == "__main__":
    unittest.main()
