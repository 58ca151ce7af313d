"""Climbs the ladder of a CPU with a real build, and reads what it leaves."""
import csv
import json
import math
import os
import pathlib
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = SOURCE / "tests" / "fixtures" / "data_bpe.model"
TEXT = pathlib.Path("/usr/share/common-licenses")  # on every Debian and Ubuntu
RUNGS = ["fp32", "padded", "vocab_512", "tied", "prefetch", "workers", "text", "shards"]


class Ladder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name, "out")

    def climb(self, *arguments):
        environment = dict(os.environ, OUT=self.out, TEXT=TEXT, TOKENIZER=TOKENIZER, OMP_NUM_THREADS="1")
        command = [SOURCE / "scripts" / "ladder.sh", "--device", "cpu", "--steps", "6", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)

    def test_every_rung_has_its_figures(self):
        done = self.climb()
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        with open(self.out / "ladder.csv", newline="", encoding="utf-8") as file:
            rows = {row["name"]: row for row in csv.DictReader(file)}
        self.assertEqual(RUNGS, list(rows))
        for row in rows.values():
            for figure in ("tokens_per_s", "peak_mib", "loss", "first_step_s"):
                self.assertGreater(float(row[figure]), 0, f"{row['name']}: {figure}")
        loss = {name: float(row["loss"]) for name, row in rows.items()}
        # What changes only how tokens arrive leaves the loss as it is.
        for one, other in (("tied", "prefetch"), ("tied", "workers"), ("text", "shards")):
            self.assertTrue(math.isclose(loss[one], loss[other], rel_tol=1e-6), f"{one}, {other}: {loss}")
        self.assertNotEqual(loss["padded"], loss["tied"])
        self.check_renderings(done.stdout, rows)

    def check_renderings(self, output, rows):
        self.assertEqual(RUNGS, [rung["name"] for rung in json.loads((self.out / "ladder.json").read_text())["rungs"]])
        table = (self.out / "ladder.md").read_text().splitlines()
        self.assertEqual(len(RUNGS) + 2, sum(line.startswith("| ") for line in table))
        picture = ElementTree.parse(self.out / "ladder.svg").getroot()
        texts = [element.text for element in picture.findall(".//{*}text")]
        for row in rows.values():
            rate = f"{float(row['tokens_per_s']):,.0f}"
            self.assertIn(rate, texts)
            self.assertIn(rate, output)

    def test_rungs_by_name_stand_on_those_below(self):
        done = self.climb("--rungs", "tied")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        rungs = json.loads((self.out / "ladder.json").read_text())["rungs"]
        self.assertEqual(["tied"], [rung["name"] for rung in rungs])
        log = (self.out / "runs" / "tied.log").read_text()
        self.assertIn("tie_embeddings:True", log)
        self.assertIn("train_io:prefetch:False", log)  # of the first rung

    def test_a_rung_that_fails_is_told_and_the_others_are_measured(self):
        self.addCleanup(os.environ.pop, "MLP_MULT")
        os.environ["MLP_MULT"] = "-1"
        done = self.climb("--rungs", "fp32 tied")
        self.assertEqual(1, done.returncode)
        self.assertIn("FAIL tied (exit 64)", done.stdout)
        self.assertIn("failed", (self.out / "ladder.md").read_text())

    def test_a_rung_that_does_not_exist_is_refused(self):
        done = self.climb("--rungs", "fp32 fp31")
        self.assertEqual(1, done.returncode)
        self.assertIn("no rung 'fp31'", done.stderr)

    def test_a_run_too_short_to_settle_is_refused(self):
        done = self.climb("--steps", "5")
        self.assertEqual(1, done.returncode)
        self.assertIn("--steps 5: expected at least 6", done.stderr)


if __name__ == "__main__":
    unittest.main()
