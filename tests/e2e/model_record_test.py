"""A model file stores its own stage, QAT state and step, independently of its run's files."""

import json
import re
import shutil
import struct
import unittest

from harness import LAST_RECORD, RunTest, read_events

RECURS = 6  # the steps before recurrence
BEFORE, AFTER = 4, 12  # steps of a checkpoint before recurrence and of the final model


def metadata(path):
    """Returns the __metadata__ of a safetensors file."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length]).get("__metadata__", {})


def without_metadata(path):
    """Rewrites a safetensors file as an older program would have written it."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])


class ModelRecordTest(RunTest):
    small = dict(LAST_RECORD, EMA_ENABLED=0)

    def run_of(self, output):
        """Copies a run through recurrence with all its checkpoints, which is trained once, to that folder; its
        validation losses by step are in self.by_step."""
        first = self.folder / "first"
        if not first.exists():
            self.train(output=first.name, CHECKPOINT_EVERY=4, KEEP=9, ARTIFACT="int6")
        self.by_step = {event["step"]: event["val_loss"] for event in read_events(first) if event["event"] == "val"}
        self.out = shutil.copytree(first, self.folder / output)
        return self.out

    def score(self, model, *flags, through=(), **settings):
        """Returns eval's val_loss for whole sequences; its output is in self.said."""
        done = self.run_gpt("eval", "--init-from", model, *flags, output=self.out.name, through=through, **settings)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.said = done.stdout + done.stderr
        return float(re.search(r"val_loss:([\d.]+)", done.stdout)[1])

    def expect(self, model, step, *flags, **settings):
        self.assertAlmostEqual(self.score(model, *flags, **settings), self.by_step[step], delta=6e-5)

    def test_every_file_says_recipe_stage_qat_and_step(self):
        run = self.run_of("files")
        record = {"recipe": "last_record", "stage": 1, "qat": False, "step": AFTER}
        self.assertEqual(json.loads(metadata(run / "final_model.safetensors")["train_gpt"]), record)
        self.assertRegex(metadata(run / "final_model.safetensors")["program"], r"^train_gpt \d+\.\d+\.\d+$")
        for name in ("final_model.pt", "final_model.int6.ptz"):
            beside = json.loads((run / f"{name}.record.json").read_text())
            self.assertEqual({key: beside[key] for key in record}, record)
            self.assertEqual(beside["bytes"], (run / name).stat().st_size)
        manifest = json.loads((run / "checkpoints" / f"step-{BEFORE:08}" / "manifest.json").read_text())
        self.assertEqual(manifest["model"], dict(record, stage=0, step=BEFORE))
        artifact, = [event for event in read_events(run) if event["event"] == "artifact"]
        record_bytes = (run / "final_model.int6.ptz.record.json").stat().st_size
        self.assertEqual(artifact["record_bytes"], record_bytes)
        self.assertEqual(artifact["total_bytes"], artifact["bytes"] + record_bytes + artifact["code_bytes"])
        done = self.run_gpt("inspect", run / "final_model.int6.ptz", output="files")
        self.assertIn("artifact, int6 (.xz)\nrecipe last_record, stage 1, QAT off, 12 steps\n", done.stdout)

    def test_models_are_scored_in_their_own_stage_whatever_becomes_of_metrics_jsonl(self):
        run = self.run_of("metrics")
        (run / "metrics.jsonl").unlink()
        self.expect(run / "checkpoints" / f"step-{BEFORE:08}", BEFORE)
        self.expect(run, AFTER)
        (run / "final_model.safetensors").unlink()
        self.expect(run / "final_model.pt", AFTER)

    def test_a_run_branched_from_another_runs_checkpoint_recurs(self):
        run = self.run_of("branched-from")
        self.out = self.folder / "branch"
        events = self.train(output="branch", RESUME=run / "checkpoints" / "step-00000008", ITERATIONS=AFTER)
        self.assertEqual([event for event in events if event["event"] == "stage"], [])
        self.by_step = {event["step"]: event["val_loss"] for event in events if event["event"] == "val"}
        self.expect(self.out, AFTER)

    def test_a_final_model_stays_in_its_stage_while_its_lengthened_run_goes_on(self):
        # 4 steps of SCHEDULE_ITERATIONS=12: before recurrence.
        schedule = dict(SCHEDULE_ITERATIONS=AFTER, CHECKPOINT_EVERY=4, KEEP=9)
        events = self.train(output="lengthened", ITERATIONS=BEFORE, **schedule)
        self.by_step = {event["step"]: event["val_loss"] for event in events if event["event"] == "val"}
        shutil.copy(self.out / "final_model.safetensors", self.folder / "kept")
        self.train(output="lengthened", ITERATIONS=AFTER, **schedule)
        shutil.copy(self.folder / "kept", self.out / "final_model.safetensors")
        self.expect(self.out, BEFORE)

    def test_an_older_checkpoint_behind_a_damaged_one_has_its_own_stage_on_every_rank(self):
        run = self.run_of("damaged")
        for step in (8, 12):
            (run / "checkpoints" / f"step-{step:08}" / "rank-00000.safetensors").write_bytes(b"")
        self.expect(run / "checkpoints", BEFORE)
        self.expect(run / "checkpoints", BEFORE, ranks=2)

    def test_an_artifact_of_an_early_checkpoint_does_not_recur_in_its_runs_folder(self):
        run = self.run_of("early")
        artifact = run / "early.int6.ptz"
        early = run / "checkpoints" / f"step-{BEFORE:08}"
        done = self.run_gpt("quantize", "--init-from", early, "--out", artifact, "--artifact", "int6", output="early")
        self.assertEqual(done.returncode, 0, done.stderr)
        before = self.score(artifact)
        record = artifact.with_name(artifact.name + ".record.json")
        record.write_text(record.read_text().replace('"stage": 0', '"stage": 1'))
        self.assertNotAlmostEqual(self.score(artifact), before, delta=1e-3)

    def test_an_exported_model_says_its_stage_and_is_a_model_in_it(self):
        run = self.run_of("exported")
        for name, model, step, stage in (("hf-before", run / "checkpoints" / f"step-{BEFORE:08}", BEFORE, 0),
                                         ("hf-after", run, AFTER, 1)):
            folder = self.folder / name
            done = self.run_gpt("export", "--hf", folder, "--init-from", model, output="exported")
            self.assertEqual(done.returncode, 0, done.stderr)
            config = json.loads((folder / "config.json").read_text())
            self.assertEqual((config["train_gpt"]["stage"], config["train_gpt"]["step"]), (stage, step))
            self.expect(folder, step)

    def test_a_file_without_a_record_is_taken_by_the_steps_of_its_run_and_a_line_says_so(self):
        run = self.run_of("older")
        without_metadata(run / "final_model.safetensors")
        self.expect(run, AFTER)
        self.assertIn("no record of its stage is stored with it; taken as in recurrence, by ", self.said)
        self.assertIn("after 12 steps", self.said)
        # The run continued after the model was written.
        lines = (run / "metrics.jsonl").read_text().splitlines()
        kept = [line for line in lines if json.loads(line)["event"] != "model"]
        first = next(i for i, line in enumerate(kept) if json.loads(line)["event"] == "train")
        kept.insert(first + BEFORE, json.dumps({"event": "resume", "step": BEFORE, "checkpoint": "c"}))
        (run / "metrics.jsonl").write_text("\n".join(kept) + "\n")
        self.score(run)
        self.assertIn("taken as before recurrence", self.said)
        (run / "metrics.jsonl").unlink()
        self.expect(run, AFTER)
        self.assertIn("taken as in recurrence, without its run's metrics (", self.said)

    def test_a_record_of_another_file_is_left_out(self):
        run = self.run_of("replaced")
        model = run / "final_model.pt"
        record = run / "final_model.pt.record.json"
        record.write_text(re.sub(r'"xxh3": "[0-9a-f]{4}', '"xxh3": "0000', record.read_text()))
        self.expect(model, AFTER)
        self.assertIn("is the record of another final_model.pt", self.said)
        self.assertIn("no record of its stage is stored with it", self.said)
        record.write_text("{}")
        done = self.run_gpt("eval", "--init-from", model, output="replaced")
        self.assertEqual(done.returncode, 65, done.stderr)
        self.assertIn("final_model.pt.record.json", done.stderr)

    def test_a_new_run_sets_the_records_aside_with_their_files(self):
        run = self.run_of("numbered")
        self.train(output="numbered", ITERATIONS=1, VAL_LOSS_EVERY=0, RESUME="never")
        self.assertTrue((run / "final_model.1.pt.record.json").exists())
        self.expect(run / "final_model.1.pt", AFTER)
        self.assertNotIn("no record", self.said)


if __name__ == "__main__":
    unittest.main()
