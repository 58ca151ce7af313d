"""Common code of the tests that train every preset of configs/ on GPUs."""

import subprocess
import sys

from harness import SOURCE, RunTest, mpirun

sys.path.insert(0, str(SOURCE / "tests" / "bench"))
from machine import preset_file, synthetic_tokens, visible_gpus

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


def data_of(preset):
    """The harness has shards and a tokenizer of another vocabulary."""
    return dict(TOKENIZER_PATH="", DATA_PATH=synthetic_tokens(preset_file(preset)))


class PresetTest(RunTest):
    small = SHORT

    def start_preset(self, preset, world, output, at=0, **chosen):
        """Starts it on the first `world` GPUs, or with at = 1, 2, ... on the next ones, and again on the first."""
        gpus = visible_gpus()
        first = at % (len(gpus) // world) * world
        return self.start_gpt("--config", preset_file(preset), output=output, through=mpirun(world),
                              CUDA_VISIBLE_DEVICES=",".join(gpus[first:first + world]), **data_of(preset), **chosen)

    def end_of(self, process):
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)

    def start_all(self, world, runs):
        """Starts the runs, [(preset, output)], on `world` GPUs each, as many at a time as the GPUs hold. Returns their
        processes, some of which may not have ended."""
        at_once = RUNS_PER_GPU * (len(visible_gpus()) // world)
        processes = []
        for at, (preset, output) in enumerate(runs):
            if at >= at_once:
                processes[at - at_once].wait(timeout=120)
            processes.append(self.start_preset(preset, world, output, at, stdout=subprocess.DEVNULL))
        return processes
