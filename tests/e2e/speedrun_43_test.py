"""Record 43's recipe: aligned rows, stages of windows, alternating NorMuon and Adam, on several ranks, killed and
resumed."""

import unittest

from safetensors.numpy import load_file

from harness import SPEEDRUN_43, RunTest, train_losses
from speedrun_tests import SpeedrunTests, values_by_step

CONFIG = 78
TOKENS, HEAD = "tok_emb.weight", "lm_head.weight"


class Speedrun43Test(SpeedrunTests, RunTest):
    small = SPEEDRUN_43
    saved = (1, 2, 5, 7)  # one in each stage or where it begins, all but one between two Adam updates

    def test_windows_grow_at_their_steps_and_the_last_validation_has_one_of_its_own(self):
        events = self.whole()
        self.assertEqual([event["step"] for event in events if event["event"] == "stage"], [2, 4, 6])
        # Without it the losses of all steps are equal, and only the last validation differs.
        plain = self.train(output="plain", FINAL_LONG_WINDOW=0)
        self.assertEqual(train_losses(plain), train_losses(events))
        last, before = values_by_step(events, "val", "val_loss"), values_by_step(plain, "val", "val_loss")
        self.assertEqual({step: last[step] for step in (0, 2, 4, 6)}, {step: before[step] for step in (0, 2, 4, 6)})
        self.assertNotEqual(last[8], before[8])

    def test_any_number_of_ranks_trains_on_the_same_rows(self):
        # Eight rows of 64 tokens, whatever the ranks, and a step in each stage, two in the last one.
        of_ranks = dict(TRAIN_BATCH_TOKENS=512, GRAD_ACCUM_STEPS=None, ITERATIONS=5, SCHEDULE_ITERATIONS=4, VAL_LOSS_EVERY=0,
                        SHORT_WINDOW="1,3@1,5@2,6@3", LONG_WINDOW="3,7@1,11@2,13@3")
        alone = train_losses(self.train(output="alone", **of_ranks))
        for ranks in (2, 3):
            with self.subTest(ranks):
                together = train_losses(self.train(output=f"on-{ranks}", ranks=ranks, **of_ranks))
                self.assertEqual(len(together), len(alone))
                for step, (found, expected) in enumerate(zip(together, alone)):
                    self.assertAlmostEqual(found, expected, delta=2e-5 * expected, msg=step)

    def test_embedding_and_head_are_one_table_until_they_are_untied(self):
        # Step 2 ends the last update of both as one, step 4 the first one of each. Tables of 22,016 tokens are sharded.
        tied = dict(UNTIE_EMBEDDINGS_AT=1, ITERATIONS=4, VAL_LOSS_EVERY=0, CHECKPOINT_EVERY=1, KEEP=20)
        sharded = dict(VOCAB_SIZE=22016, TOKENIZER_PATH="", TRAIN_BATCH_TOKENS=64, EVAL_SEQ_LEN=16, VAL_TOKENS=128,
                       VAL_BATCH_SIZE=128)
        for name, ranks, steps, chosen in (("small", 1, (1, 2, 3), {}), ("two", 2, (2,), {}),
                                           ("sharded", 2, (1, 2, 3), sharded)):
            settings = dict(tied, GRAD_ACCUM_STEPS=2 // ranks, **chosen)  # two micro-batches
            with self.subTest(name):
                losses = train_losses(self.train(output=name, ranks=ranks, **settings))
                model, saved = (self.out / "final_model.safetensors").read_bytes(), self.out / "checkpoints"
                settings["CHECKPOINT_EVERY"] = 0
                for step in steps:
                    self.assertTrue(self.tables_are_one(saved / f"step-{step:08}"), step)
                    settings["RESUME"] = saved / f"step-{step:08}"
                    resumed = self.train(output=f"{name}-{step}", ranks=ranks, **settings)
                    self.assertEqual(train_losses(resumed), losses[step:], step)
                    self.assertEqual((self.out / "final_model.safetensors").read_bytes(), model, step)
                    if ranks > 1 and step == 2:
                        alone = train_losses(self.train(output=f"{name}-{step}-alone", **dict(settings, GRAD_ACCUM_STEPS=2)))
                        for found, expected in zip(alone, losses[step:], strict=True):
                            self.assertAlmostEqual(found, expected, delta=2e-5 * expected)
                self.assertFalse(self.tables_are_one(saved / "step-00000004"))

    def tables_are_one(self, folder):
        """Returns whether a checkpoint's embedding and head are equal."""
        tensors = {}
        for path in folder.glob("*.safetensors"):
            tensors.update(load_file(path))
        return (tensors[f"parameter.{TOKENS}"] == tensors[f"parameter.{HEAD}"]).all()

    def test_only_equal_tables_begin_as_one_and_only_an_update_ends_it(self):
        self.whole()
        self.fails(CONFIG, "final_model.safetensors: its tok_emb.weight and lm_head.weight differ", "UNTIE_EMBEDDINGS_AT=7",
                   output="different", INIT_FROM=self.out / "final_model.safetensors", UNTIE_EMBEDDINGS_AT=7)
        self.fails(CONFIG, "UNTIE_EMBEDDINGS_AT=8: not a step that updates the embeddings", output="even",
                   UNTIE_EMBEDDINGS_AT=8)

    def test_what_it_does_not_have_is_refused_in_a_line(self):
        self.fails(CONFIG, "XSA_LAST_N=2", "RECIPE=speedrun_43", output="refused", XSA_LAST_N=2)


if __name__ == "__main__":
    unittest.main()
