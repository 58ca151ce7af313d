"""All GPUs of a host together train every preset as one of them does, and share the documents of test-time training."""

import unittest

from harness import LAST_RECORD, gpu_count, mpirun, read_events, train_losses
from model_commands import PHASED, ModelTest, frequent_token, score_of
from presets import PRESETS, SHORT, PresetTest

TOLERANCE = 1e-5  # relative


@unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
class PresetsTest(PresetTest):
    # Adam turns gradients that are as small as its eps, and so are rounding errors, into whole steps: later losses part.
    small = SHORT | {"COMPUTE_DTYPE": "fp32", "FP8": 0, "ITERATIONS": 3}

    def losses_on(self, world):
        """Returns the losses of every preset."""
        runs = [(preset, f"{preset}.{world}") for preset in PRESETS]
        for process in self.start_all(world, runs):
            self.end_of(process)
        return {preset: train_losses(read_events(self.folder / output)) for preset, output in runs}

    def test_have_the_losses_of_one_gpu_on_all_gpus_in_fp32(self):
        of_one, of_all = self.losses_on(1), self.losses_on(gpu_count())
        for preset, losses in of_all.items():
            with self.subTest(preset=preset):
                self.assertEqual(len(losses), self.small["ITERATIONS"])
                for step, (ours, expected) in enumerate(zip(losses, of_one[preset]), start=1):
                    self.assertLessEqual(abs(ours - expected), TOLERANCE * expected, f"step {step}")


@unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
class AdaptationTest(ModelTest):
    small = LAST_RECORD

    def test_of_documents_that_gpus_share_lowers_the_score_that_all_have_in_common(self):
        bos = frequent_token(self.shards / "fineweb_val_000000.bin", 20)
        self.train(DEVICE="cuda", BOS_ID=bos, **PHASED | {"PHASED_TTT_ENABLED": 0})
        adapt = ("eval", "--init-from", self.out / "final_model.safetensors", "--adapt", "lora", "--phased-ttt-prefix-docs", 8)
        alone, shared = (self.prints(*adapt, through=mpirun(world), DEVICE="cuda") for world in (1, gpu_count()))
        before = score_of(alone, "final_documents")
        self.assertAlmostEqual(score_of(shared, "final_documents"), before, delta=TOLERANCE * before)
        # The initial A of a batch, and so its score, depends on which rank claimed which batch.
        for text in (alone, shared):
            self.assertLess(score_of(text, "final_ttt_phased"), before)


if __name__ == "__main__":
    unittest.main()
