"""Promises that every recipe of the speedrun's records keeps."""

import json
import re

from harness import read_events, train_losses


def values_by_step(events, kind, field):
    return {event["step"]: event[field] for event in events if event["event"] == kind}


class SpeedrunTests:
    """Tests of a harness.RunTest whose `small` trains 8 steps in four stages, which begin at steps 0, 2, 4 and 6; from
    its checkpoints of the steps `saved` the run is resumed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shards = "synthetic:documents"

    def whole(self):
        """Returns the events of a run with all its checkpoints, trained once; its files are in self.out."""
        self.out = self.folder / "whole"
        if not self.out.exists():
            self.train(output="whole", CHECKPOINT_EVERY=1, KEEP=20)
        return read_events(self.out)

    def test_a_run_goes_on_from_a_checkpoint_of_every_stage_bit_for_bit(self):
        events = self.whole()
        losses, model = train_losses(events), (self.out / "final_model.safetensors").read_bytes()
        for step in self.saved:
            with self.subTest(step):
                saved = self.folder / "whole" / "checkpoints" / f"step-{step:08}"
                self.assertEqual(train_losses(self.train(output=f"from-{step}", RESUME=saved)), losses[step:])
                self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model)

    def test_the_trained_model_is_scored_as_at_the_end_of_its_run_and_sampled(self):
        expected = values_by_step(self.whole(), "val", "val_loss")
        done = self.run_gpt("eval", "--init-from", self.out, output="whole", OUTPUT_DIR=None)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertAlmostEqual(float(re.search(r"val_loss:([\d.]+)", done.stdout)[1]), expected[8], delta=6e-5)
        for step, stage in ((3, 1), (7, 3)):
            manifest = self.out / "checkpoints" / f"step-{step:08}" / "manifest.json"
            self.assertEqual(json.loads(manifest.read_text())["model"]["stage"], stage)
        done = self.run_gpt("sample", "--init-from", self.out, "--prompt", "This program", "--tokens", "8",
                            output="whole", OUTPUT_DIR=None)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("This program"), done.stdout)
