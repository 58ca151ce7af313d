"""COMPUTE_DTYPE=fp16 with dynamic loss scaling on a CPU; gpu_test.py tests it on a GPU."""

import signal
import unittest

from harness import TWO_LAYERS, RunTest, read_until, train_losses

# Few tokens, because fp16 GEMMs are slow on a CPU.
FEW_TOKENS = dict(TWO_LAYERS, TRAIN_BATCH_TOKENS=256, VAL_LOSS_EVERY=0, VAL_BATCH_SIZE=512, VAL_TOKENS=512)
# A loss whose gradient overflows in fp16 at the first scales.
OVERFLOWING = dict(COMPUTE_DTYPE="fp16", MTP_NUM_HEADS=1, MTP_LOSS_WEIGHT=30000, GRAD_CLIP_NORM=0.3, WARMUP_STEPS=0)


def steps(events):
    return [event for event in events if event["event"] == "train"]


def skipped(events):
    return [event for event in events if event["event"] == "skipped_step"]


class HalfPrecisionTest(RunTest):
    small = FEW_TOKENS

    def test_the_losses_are_those_of_fp32_to_its_rounding(self):
        expected = train_losses(self.train(output="fp32", ITERATIONS=16))
        events = self.train(COMPUTE_DTYPE="fp16", ITERATIONS=16)
        for step, (found, exact) in enumerate(zip(train_losses(events), expected, strict=True), 1):
            self.assertAlmostEqual(found, exact, delta=4e-3 * exact, msg=f"step {step}")
        self.assertEqual({event["loss_scale"] for event in steps(events)}, {65536})
        self.assertTrue(any(line.endswith("compute_dtype:Half") for line in self.lines))
        self.assertEqual(self.warnings, [])

    def test_overflows_are_skipped_counted_and_survived(self):
        events = self.train(ITERATIONS=30, **OVERFLOWING)
        overflows = skipped(events)
        self.assertGreater(len(overflows), 0)
        self.assertEqual([event["overflows"] for event in overflows], list(range(1, len(overflows) + 1)))
        # Each overflow halves the scale of the following step.
        scale = 65536
        skipped_steps = {event["step"] for event in overflows}
        for event in steps(events):
            self.assertEqual(event["loss_scale"], scale)
            scale /= 2 if event["step"] in skipped_steps else 1
        self.assertGreater(scale, 1)
        self.assertLess(len([step for step in skipped_steps if step > 15]), 4)
        self.assertIn(f"loss_scale:32768 overflow at step:{overflows[0]['step']}, update skipped (1 so far)", self.lines)

    def test_a_run_goes_on_with_the_scale_it_was_stopped_with(self):
        settings = dict(OVERFLOWING, CHECKPOINT_EVERY=4, ITERATIONS=16)
        whole = self.train(output="whole", **settings)
        with self.start_gpt(output="parts", **settings) as process:
            read_until(process, "step:6/")
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, errors)
        parts = self.train(output="parts", **settings)
        self.assertEqual([(event["train_loss"], event["loss_scale"]) for event in steps(parts)],
                         [(event["train_loss"], event["loss_scale"]) for event in steps(whole)])
        self.assertLess(steps(whole)[-1]["loss_scale"], 65536)

    def test_ranks_agree_on_the_scale(self):
        settings = dict(OVERFLOWING, LOADER_ORDER="stream", ITERATIONS=12, GRAD_ACCUM_STEPS=None)
        alone = self.train(output="alone", **settings)
        together = self.train(output="together", ranks=2, **settings)
        self.assertGreater(len(skipped(alone)), 0)
        self.assertEqual([event["step"] for event in skipped(together)], [event["step"] for event in skipped(alone)])
        for found, expected in zip(steps(together), steps(alone), strict=True):
            self.assertEqual(found["loss_scale"], expected["loss_scale"])
            self.assertAlmostEqual(found["train_loss"], expected["train_loss"], delta=1e-2 * expected["train_loss"])


if __name__ == "__main__":
    unittest.main()
