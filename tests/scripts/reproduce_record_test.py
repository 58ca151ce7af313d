"""scripts/reproduce_record.sh on a tiny model and tiny shards, cut and started again, and its comparison on runs within
and outside of the logs."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import BUILD, SOURCE, SPEEDRUN_43, RunTest, end, read_events, read_until, write_shard

NAME = "speedrun_43"
RECORD = json.loads((SOURCE / "data" / "records" / f"{NAME}.json").read_text())
NO_RECORD = 2
STOPPED = 75

# A downloader that brings nothing and notes what it was asked for.
DOWNLOADER = """import pathlib, sys
with open(pathlib.Path(__file__).parent / "asked", "a") as file:
    print(*sys.argv[1:], file=file)
"""


class Reproduction(RunTest):
    small = dict(SPEEDRUN_43, ITERATIONS=16, VAL_LOSS_EVERY=8)

    def setUp(self):
        self.tree = self.folder / "tree"
        for name in ("scripts", "configs", "data/records"):
            shutil.copytree(SOURCE / name, self.tree / name)
        (self.tree / "build").symlink_to(BUILD)
        (self.tree / "data" / "download_fineweb.py").write_text(DOWNLOADER)
        shards = self.tree / "data" / "datasets" / "fineweb10B_gpt2"
        shards.mkdir(parents=True)
        draw = random.Random(1)
        for name, count in (("train_000001", 30000), ("train_000002", 30000), ("val_000000", 4000)):
            tokens = [1 if i % 50 == 0 else draw.randrange(2, 512) for i in range(count)]
            write_shard(shards / f"fineweb_{name}.bin", tokens)

    def start_script(self):
        flags = [word for name, value in self.small.items() for word in (f"--{name.lower().replace('_', '-')}", value)]
        return self.start_gpt(NAME, *flags, program=[self.tree / "scripts" / "reproduce_record.sh"], PYTHON=sys.executable,
                              RUN_ID=None, DATA_PATH=None, TOKENIZER_PATH=None, OUTPUT_DIR=None,
                              **{name: None for name in self.small})

    def finish(self, process):
        with process:
            try:
                output, errors = process.communicate(timeout=120)
            finally:
                end(process)
        return process.returncode, output + errors

    def test_a_small_run_is_cut_goes_on_and_is_said_to_be_another(self):
        cut = self.start_script()
        self.addCleanup(end, cut)
        read_until(cut, "step:2/16 ")
        cut.send_signal(signal.SIGTERM)
        status, said = self.finish(cut)
        self.assertEqual(status, STOPPED, said)
        self.assertIn(f"This goes on: RUN_ID=reproduce-{NAME} scripts/reproduce_record.sh {NAME} --recipe", said)

        status, said = self.finish(self.start_script())
        self.assertEqual(status, NO_RECORD, said)
        events = read_events(self.tree / "logs" / f"reproduce-{NAME}")
        self.assertEqual([event["step"] for event in events if event["event"] == "train"], list(range(1, 17)))
        self.assertGreaterEqual([event["step"] for event in events if event["event"] == "resume"][0], 2)
        lines = said.splitlines()
        last = [event["val_loss"] for event in events if event["event"] == "val"][-1]
        self.assertIn(f"{16:6} {last:10.4f} {'-':>11} {'-':>10} {'-':>9}", lines)
        verdict = [line for line in lines if line.startswith("not comparable with the logs: ")]
        self.assertEqual(len(verdict), 1, said)
        for reason in ("ITERATIONS=16 (the record: 2245)", "MODEL_DIM=48 (the record: 768)", "60,000 training tokens of fineweb10B_gpt2"):
            self.assertIn(reason, verdict[0])

        # What is finished is only compared again.
        again, _ = self.finish(self.start_script())
        self.assertEqual(again, NO_RECORD)
        self.assertEqual(read_events(self.tree / "logs" / f"reproduce-{NAME}"), events)
        self.assertEqual((self.tree / "data" / "asked").read_text(), "gpt2 --train-shards 9\n" * 3)


class Comparison(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="reproduce-record-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, away, start=(), flags=(), tokens=900_000_000, done=2245):
        """→ exit status and lines for a run whose losses are away(step) deviations above the logs' means.

        start: {field: value} of the event that differ; flags: {setting: value} that the run was given.
        """
        events = [{"event": "data", "train_tokens": tokens},
                  {"event": "start", "dataset": "fineweb10B_gpt2", "device": "NVIDIA H100", "world_size": 8,
                   "micro_batches": 8, "compute_dtype": "BFloat16", "fp8": "head", **dict(start)}]
        events += [{"event": "train", "step": step, "train_time_ms": 60.5 * step} for step in range(1, done + 1)]
        for entry in RECORD["val_loss"]:
            if entry["step"] <= done:
                high = away(entry["step"])
                loss = None if high is None else entry["mean"] + high * (entry["deviation"] or 0)
                events.append({"event": "val", "step": entry["step"], "val_loss": loss})
        events.append({"event": "memory", "peak_allocated_bytes": 20000 << 20})
        (self.folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        settings = {"RECIPE": NAME, "SEED": 1, "CAUTIOUS_WD": True, "MLP_MULT": 4.0, **dict(flags)}
        origins = {name: "flag" if name in dict(flags) else "recipe" for name in settings}
        (self.folder / "config.json").write_text(json.dumps({"settings": settings, "origins": origins}))
        done = subprocess.run([SOURCE / "scripts" / "reproduce_record.sh", NAME, "--compare", self.folder], text=True,
                              env=dict(os.environ, BUILD_DIR=str(BUILD), PYTHON=sys.executable, MATRIX_LR="1"),
                              capture_output=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_a_run_within_the_logs_is_told_by_its_distance(self):
        status, lines = self.compare(lambda step: 1)
        self.assertEqual((status, lines[-1]), (0, "within the logs: final loss 3.2797, +1.0 deviations"))
        self.assertIn("     0    10.8258     10.8258          -         -", lines)
        self.assertIn("   250     4.0918      4.0814     0.0104      +1.0", lines)
        figures = {tuple(line.split()[-2:]) for line in lines}
        for row in (("60.50", "60.89"), ("60.50", "61.88"), ("135.82", "137.58"), ("20,000", "29,249")):
            self.assertIn(row, figures)
        self.assertTrue(lines[-2].startswith("this run: 8 x NVIDIA H100, BFloat16, FP8 head; logs: "), lines[-2])

    def test_three_deviations_above_the_mean_are_the_limit(self):
        self.assertEqual(self.compare(lambda step: 2.9)[0], 0)
        status, lines = self.compare(lambda step: 3.1)
        self.assertEqual(status, 1)
        self.assertTrue(lines[-1].startswith("OUTSIDE the logs: final loss 3.2824, +3.1 deviations"), lines[-1])
        self.assertIn("from step 250 on", lines[-1])

    def test_it_says_since_when_a_run_is_outside(self):
        for since in (1000, 2245):
            status, lines = self.compare(lambda step, since=since: 8 if step in (500, since) or step > since else 0)
            self.assertEqual(status, 1)
            self.assertIn(f"from step {since} on", lines[-1])

    def test_high_losses_on_the_way_to_a_good_one_are_no_fault(self):
        self.assertEqual(self.compare(lambda step: 9 if step < 2000 else 1)[0], 0)

    def test_a_loss_far_below_is_told(self):
        status, lines = self.compare(lambda step: -4)
        self.assertEqual(status, 0)
        self.assertTrue(lines[-1].startswith("BELOW the logs: final loss 3.2732, -4.0 deviations"), lines[-1])

    def test_a_run_without_its_last_loss_is_no_success(self):
        status, lines = self.compare(lambda step: 0, done=1600)
        self.assertEqual((status, lines[-1]), (1, "UNFINISHED: step 1600 of 2245 is done; start the same command again to go on"))
        self.assertIn("  1750          -      3.3782     0.0014         -", lines)
        status, lines = self.compare(lambda step: None if step == 2245 else 0)
        self.assertEqual(status, 1)
        self.assertIn("not finite", lines[-1])

    def test_another_run_is_not_compared(self):
        cases = ((dict(flags={"MATRIX_LR": 0.02}), "MATRIX_LR=0.02 (the record: 0.03)"),
                 (dict(flags={"CAUTIOUS_WD": False}), "CAUTIOUS_WD=False (the record: 1)"),
                 (dict(start={"micro_batches": 16}), "16 micro-batches per step (the record: 8)"),
                 (dict(start={"dataset": "synthetic:documents"}), "training tokens of synthetic:documents"),
                 (dict(tokens=800_000_000), "800,000,000 training tokens of fineweb10B_gpt2"))
        for changes, reason in cases:
            with self.subTest(reason):
                status, lines = self.compare(lambda step: 0, **changes)
                self.assertEqual(status, NO_RECORD)
                self.assertTrue(lines[-1].startswith("not comparable with the logs: "), lines[-1])
                self.assertIn(reason, lines[-1])
                self.assertNotIn("; ", lines[-1])  # no other reason

    def test_flags_that_leave_the_losses_are_no_difference(self):
        free = {"SEED": 2, "FP8": "head", "VAL_LOSS_EVERY": 125, "CHECKPOINT_EVERY": "100", "ATTENTION": "flash"}
        of_the_record = {"MATRIX_LR": 0.03, "ITERATIONS": 2245, "MUON_COEFFICIENTS": "polar_express",
                         "CONTROL_TENSOR_NAME_PATTERNS": [], "NORMUON": True, "SHORT_WINDOW": "1,3@735,5@1470,6@2205"}
        status, lines = self.compare(lambda step: 0, flags=free | of_the_record)
        self.assertEqual(status, 0, lines[-1])

    def test_a_folder_without_a_run_is_refused_in_a_line(self):
        done = subprocess.run([SOURCE / "scripts" / "reproduce_record.sh", NAME, "--compare", self.folder], text=True,
                              env=dict(os.environ, BUILD_DIR=str(BUILD)), capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"no run in {self.folder}: ", done.stderr)

    def test_the_logs_are_of_the_presets_run(self):
        printed = subprocess.run([BUILD / "train_gpt", "inspect", "--settings", SOURCE / "configs" / f"{NAME}.env"],
                                 capture_output=True, text=True, check=True).stdout
        preset = dict(line.split("=", 1) for line in printed.splitlines())
        steps, every = int(preset["ITERATIONS"]), int(preset["VAL_LOSS_EVERY"])
        self.assertEqual([entry["step"] for entry in RECORD["val_loss"]], [*range(0, steps, every), steps])
        changes = [int(part.split("@")[1]) for part in preset["SHORT_WINDOW"].split(",") if "@" in part]
        self.assertEqual([stage["last_step"] for stage in RECORD["stages"]], [*changes, steps])
        total = sum(stage["step_ms"] * (stage["last_step"] - first)
                    for first, stage in zip([0, *changes], RECORD["stages"]))
        self.assertAlmostEqual(total / 1000, RECORD["train_s"], delta=0.02)


if __name__ == "__main__":
    unittest.main()
