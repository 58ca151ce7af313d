"""MTP_WEIGHTS and PREFIX_WEIGHT: further targets in the loss of the one head."""

import json
import unittest

from harness import RunTest, train_losses


def objectives(events):
    return [event.get("objective") for event in events if event["event"] == "train"]


class ObjectiveTest(RunTest):
    def table(self, ids):
        path = self.folder / "prefixes.json"
        path.write_text(json.dumps(ids))
        return path

    def test_the_first_steps_loss_is_that_without_further_targets(self):
        plain = self.train(output="plain", ITERATIONS=3)
        weighted = self.train(output="weighted", ITERATIONS=3, MTP_WEIGHTS="1/0.5/0.25")
        self.assertEqual(objectives(plain), [None] * 3)
        self.assertAlmostEqual(train_losses(weighted)[0], train_losses(plain)[0], places=5)
        self.assertNotEqual(train_losses(weighted)[2], train_losses(plain)[2])
        # Random weights are equally bad at every target.
        self.assertAlmostEqual(objectives(weighted)[0] / train_losses(weighted)[0], 1.75, delta=0.06)

    def test_targets_of_weight_0_change_nothing(self):
        plain = self.train(output="without", ITERATIONS=3)
        ends = self.train(output="ends", ITERATIONS=3, MTP_WEIGHTS="1/0")
        self.assertAlmostEqual(train_losses(ends)[1], train_losses(plain)[1], places=5)

    def test_weights_follow_their_schedule(self):
        events = self.train(ITERATIONS=6, MTP_WEIGHTS="1/0.5:0,1@4")
        ratios = [objective / loss for objective, loss in zip(objectives(events), train_losses(events))]
        for ratio, weight in zip(ratios, (0.5, 0.375, 0.25, 0.125, 0, 0)):
            self.assertAlmostEqual(ratio, 1 + weight, delta=0.06 * (1 + weight))

    def test_ranks_and_a_resumed_run_train_alike(self):
        prefixes = self.table([-1, -1] + [id % 3 for id in range(300)])
        chosen = dict(ITERATIONS=4, GRAD_ACCUM_STEPS=0, MTP_WEIGHTS="1/0.5:0,1@3", PREFIX_WEIGHT="0.25:0", PREFIX_TABLE=prefixes)
        alone = self.train(output="alone", **chosen)
        two = self.train(output="two", ranks=2, **chosen)
        for found, expected in zip(objectives(two), objectives(alone), strict=True):
            self.assertAlmostEqual(found, expected, delta=2e-6 * expected)
        self.train(output="parts", **dict(chosen, ITERATIONS=2, SCHEDULE_ITERATIONS=4, CHECKPOINT_EVERY=2))
        resumed = self.train(output="parts", SCHEDULE_ITERATIONS=4, **chosen)
        self.assertEqual(objectives(resumed), objectives(alone))

    def test_an_exported_model_has_the_softcap_and_no_path(self):
        run = dict(ITERATIONS=2, LOGIT_SOFTCAP=11.5, LOGIT_SOFTCAP_SHIFT=5, LOGIT_SOFTCAP_TEMPERATURE=15,
                   PREFIX_WEIGHT=0.25, PREFIX_TABLE=self.table([-1]))
        self.train(output="shifted", **run)
        exported = self.folder / "exported"
        done = self.run_gpt("export", "--hf", exported, "--init-from", self.folder / "shifted")
        self.assertEqual(0, done.returncode, done.stderr)
        config = json.loads((exported / "config.json").read_text())
        self.assertEqual((11.5, 5, 15), tuple(config[f"logit_softcap{name}"] for name in ("", "_shift", "_temperature")))
        for path in exported.glob("*.[jm]*"):
            self.assertNotIn("prefixes.json", path.read_text(errors="replace"), path.name)

    def test_a_table_of_other_things_is_refused(self):
        for ids, found in (([0, 5000], "5000"), ({"a": 1}, "object"), (["x"], '"x"')):
            self.fails(65, "PREFIX_TABLE=", found, PREFIX_WEIGHT=0.25, PREFIX_TABLE=self.table(ids))

    def test_a_prefix_has_one_weight(self):
        self.fails(78, "PREFIX_WEIGHT=0.25/0.5", PREFIX_WEIGHT="0.25/0.5")


if __name__ == "__main__":
    unittest.main()
