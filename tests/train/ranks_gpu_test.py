"""Faults of several ranks on GPUs; skipped where there are fewer than two."""

import os
import signal
import time
import unittest

from harness import RunTest, end, gpu_count, mpirun

UNAVAILABLE = 69
NOTED = ["bash", "-c", 'echo $$ >"$OUTPUT_DIR.pid$OMPI_COMM_WORLD_RANK"; exec "$0" "$@"']


@unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
class SilentRankTest(RunTest):
    def test_a_stopped_rank_is_named_and_the_last_collectives_are_saved(self):
        process = self.start_gpt(through=mpirun(2) + NOTED, DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1,
                                 ITERATIONS=1000000, VAL_LOSS_EVERY=0, SWA_ENABLED=0, COMM_TIMEOUT_S=4)
        victim = None
        try:
            while not (line := process.stdout.readline()).startswith("step:5/"):
                self.assertNotEqual(line, "", "the run ended early")
            victim = int((self.folder / "out.pid1").read_text())
            os.kill(victim, signal.SIGSTOP)
            began = time.monotonic()
            _, errors = process.communicate(timeout=40)
            self.assertLess(time.monotonic() - began, 20)
            self.assertEqual(process.returncode, UNAVAILABLE, errors)
            record = self.out / "comm_traces" / "rank_0"
            self.assertRegex(errors, rf"stopped or gone: rank 1; alive: 0 .*; its last collectives: {record}\n")
            self.assertIn(b"nccl:all_reduce", record.read_bytes())
        finally:
            if victim is not None and process.poll() is None:
                os.kill(victim, signal.SIGKILL)
            end(process)


if __name__ == "__main__":
    unittest.main()
