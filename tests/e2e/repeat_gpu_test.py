"""DETERMINISTIC=1 on GPUs: every preset repeats bit by bit on one rank and on several, also after a kill."""

import functools
import os
import re
import signal
import subprocess
import sys
import unittest

from harness import PROGRAM, SOURCE, RunTest, children_named, gpu_count, mpirun, read_events, read_until, train_losses

sys.path.insert(0, str(SOURCE / "tests" / "bench"))
from machine import visible_gpus

# quickstart.env is a smaller quickstart_gpu.env, for CPUs.
PRESETS = sorted(path.stem for path in (SOURCE / "configs").glob("*.env") if path.stem != "quickstart")
# A few short steps of a preset's model; the first step shows a different order of summation over ranks.
SHORT = {
    "DEVICE": "cuda", "DETERMINISTIC": 1, "ITERATIONS": 6, "WARMUP_STEPS": 1,
    "WARMDOWN_ITERS": 0, "ENABLE_LOOPING_AT": 0.5, "TRAIN_BATCH_TOKENS": 65536, "TRAIN_LOG_EVERY": 1,
    "VAL_LOSS_EVERY": 0, "VAL_TOKENS": 16384, "VAL_BATCH_SIZE": 16384, "MAX_WALLCLOCK_SECONDS": 0, "ARTIFACT": "none",
    "EVAL_SEQ_LEN": 2048, "EVAL_STRIDE": 0, "TTT_ENABLED": 0, "PHASED_TTT_ENABLED": 0,
}
RUNS_PER_GPU = 3  # at a time
TOO_FEW = {1: "no GPU", 2: "fewer than two GPUs", 4: "fewer than four GPUs"}  # skips.py expects these texts


@functools.cache
def data_of(preset):
    """The harness has shards and a tokenizer of another vocabulary."""
    settings = subprocess.run([*PROGRAM, "inspect", "--settings", SOURCE / "configs" / f"{preset}.env"],
                              check=True, capture_output=True, text=True).stdout
    documents = re.search("^LOADER_ORDER=(documents|aligned)$", settings, re.MULTILINE)
    return dict(TOKENIZER_PATH="", DATA_PATH="synthetic:documents" if documents else "synthetic:zipf")


class RepeatTest(RunTest):
    small = SHORT

    def start_preset(self, preset, world, output, at=0, **chosen):
        """Starts it on the first `world` GPUs, or with at = 1, 2, ... on the next ones, and again on the first."""
        gpus = visible_gpus()
        first = at % (len(gpus) // world) * world
        return self.start_gpt("--config", SOURCE / "configs" / f"{preset}.env", output=output, through=mpirun(world),
                              CUDA_VISIBLE_DEVICES=",".join(gpus[first:first + world]), **data_of(preset), **chosen)

    def end_of(self, process):
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)

    def assert_presets_repeat(self, world):
        if gpu_count() < world:
            self.skipTest(TOO_FEW[world])
        at_once = RUNS_PER_GPU * (gpu_count() // world)
        starts = [(preset, start) for preset in PRESETS for start in range(2)]
        processes = {}
        for at, (preset, start) in enumerate(starts):
            if at >= at_once:
                processes[starts[at - at_once]].wait(timeout=120)
            processes[preset, start] = self.start_preset(preset, world, f"{preset}.{world}.{start}", at,
                                                         stdout=subprocess.DEVNULL)
        for preset in PRESETS:
            with self.subTest(preset=preset):
                for start in range(2):
                    self.end_of(processes[preset, start])
                first, second = (self.folder / f"{preset}.{world}.{start}" for start in range(2))
                losses = train_losses(read_events(first))
                self.assertEqual(len(losses), SHORT["ITERATIONS"])
                self.assertEqual(train_losses(read_events(second)), losses)
                weights = [(out / "final_model.safetensors").read_bytes() for out in (first, second)]
                self.assertTrue(weights[0] == weights[1], "other weights")

    def test_every_preset_gives_the_same_bits_again_on_one_gpu(self):
        self.assert_presets_repeat(1)

    def test_every_preset_gives_the_same_bits_again_on_two_gpus(self):
        self.assert_presets_repeat(2)

    def test_every_preset_gives_the_same_bits_again_on_four_gpus(self):
        self.assert_presets_repeat(4)

    def assert_goes_on_after_a_kill(self, world):
        if gpu_count() < world:
            self.skipTest(TOO_FEW[world])
        chosen = dict(ITERATIONS=40, CHECKPOINT_EVERY=5)
        whole = self.start_preset("record_1061", world, f"whole.{world}", **chosen)
        self.end_of(whole)
        losses = train_losses(read_events(self.out))
        killed = self.launch("-n", world, "--restarts", 1, "--config", SOURCE / "configs" / "record_1061.env",
                             output=f"killed.{world}", **data_of("record_1061"), **chosen)
        read_until(killed, "checkpoint:")
        read_until(killed, "step:14/")
        os.kill(children_named("train_gpt", killed.pid)[-1], signal.SIGKILL)
        self.end_of(killed)
        events = read_events(self.out)
        self.assertEqual(sum(event["event"] == "resume" for event in events), 1)
        self.assertEqual(train_losses(events), losses)

    def test_a_killed_rank_of_two_leaves_no_trace_in_the_losses(self):
        self.assert_goes_on_after_a_kill(2)

    def test_a_killed_rank_of_four_leaves_no_trace_in_the_losses(self):
        self.assert_goes_on_after_a_kill(4)


if __name__ == "__main__":
    unittest.main()
