"""Record 89's recipe: batch, documents, windows, targets and rates by stage, a table that is split, killed and resumed on
several ranks, scored and sampled."""

import json
import subprocess
import unittest

from harness import BUILD, SOURCE, SPEEDRUN_89, VOCAB, RunTest, read_events, train_losses
from speedrun_tests import SpeedrunTests, values_by_step

CONFIG = 78


class Speedrun89Test(SpeedrunTests, RunTest):
    saved = (1, 3, 5, 6, 7)  # one in each stage, and on both sides of the table's split

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        table = cls.folder / "prefixes.json"
        table.write_text(json.dumps([token // 2 if token > 300 else -1 for token in range(VOCAB)]))
        cls.small = dict(SPEEDRUN_89, PREFIX_TABLE=table)

    def test_each_stage_has_its_batch_and_targets(self):
        events = self.whole()
        self.assertEqual([event["step"] for event in events if event["event"] == "stage"], [2, 4, 6])
        tokens = values_by_step(events, "train", "tokens")
        self.assertEqual([tokens[step] - tokens.get(step - 1, 0) for step in (1, 2, 3, 4, 5, 8)],
                         [256, 256, 384, 384, 512, 512])
        losses, objectives = (values_by_step(events, "train", name) for name in ("train_loss", "objective"))
        for step in (1, 3):  # further targets are part of the objective
            self.assertGreater(objectives[step], 1.3 * losses[step])
        self.assertAlmostEqual(objectives[8], losses[8], delta=1e-6 * losses[8])

    def test_any_number_of_ranks_trains_on_the_same_rows_and_resumes_what_others_saved(self):
        # Eight rows, whatever the ranks; their length grows. Stages of two steps.
        of_ranks = dict(TRAIN_BATCH_TOKENS="512,640@2", GRAD_ACCUM_STEPS=None, ITERATIONS=6, SCHEDULE_ITERATIONS=6,
                        VAL_LOSS_EVERY=0, SHORT_WINDOW="1,3@2,5@4,6@6", LONG_WINDOW="3,7@2,11@4,13@6", SEGMENT_LIMIT="28,48@2",
                        LR_SCALE="1,1.52@2,1.73@4", MTP_WEIGHTS="1/0.5/0.25:0,1/0.5:0@2,1@4",
                        PREFIX_WEIGHT="0.25,0.25:0@2,0@4", UNTIE_EMBEDDINGS_AT=3)
        alone = train_losses(self.train(output="alone", **of_ranks))
        for ranks in (2, 3):
            with self.subTest(ranks):
                together = train_losses(self.train(output=f"on-{ranks}", ranks=ranks, CHECKPOINT_EVERY=3, **of_ranks))
                self.assert_alike(together, alone)
        saved = dict(of_ranks, RESUME=self.folder / "on-2" / "checkpoints" / "step-00000003")
        self.assertEqual(train_losses(self.train(output="on-2-again", ranks=2, **saved)),
                         train_losses(read_events(self.folder / "on-2"))[3:])
        self.assert_alike(train_losses(self.train(output="on-1-again", **saved)), alone[3:])

    def assert_alike(self, found, expected):
        self.assertEqual(len(found), len(expected))
        for step, (loss, exact) in enumerate(zip(found, expected)):
            self.assertAlmostEqual(loss, exact, delta=2e-5 * exact, msg=step)

    def test_the_layers_of_both_records_are_listed(self):
        for record in (89, 91):
            done = subprocess.run([BUILD / "train_gpt", "inspect", "--plan", SOURCE / "configs" / f"speedrun_{record}.env"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, "the last 769 elements in its segment.*, paired heads")

    def test_what_it_does_not_have_is_refused_in_a_line(self):
        self.fails(CONFIG, "XSA_LAST_N=2", "RECIPE=speedrun_89", output="refused", XSA_LAST_N=2)
        self.fails(CONFIG, "ACTIVATION_RECOMPUTE=block", "RECIPE=speedrun_89", output="recompute",
                   ACTIVATION_RECOMPUTE="block")


if __name__ == "__main__":
    unittest.main()
