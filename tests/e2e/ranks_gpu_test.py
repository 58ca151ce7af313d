"""Faults of several ranks on GPUs; skipped with fewer than two GPUs."""

import os
import shutil
import signal
import unittest

from harness import (BUILD, OF_RANKS, RunTest, children_named, end, gpu_count, mpirun, read_events, read_until, saved_line,
                     train_losses)

UNAVAILABLE = 69
NOTED = ["bash", "-c", 'echo $$ >"$OUTPUT_DIR.pid$OMPI_COMM_WORLD_RANK"; exec "$0" "$@"']


@unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
class SilentRankTest(RunTest):
    small = OF_RANKS

    def test_a_stopped_rank_is_named_and_the_last_collectives_are_saved(self):
        self.assert_a_stopped_rank_is_named()

    # The host then waits for space for the next batch, not for a step's metrics.
    def test_a_stopped_rank_is_named_where_a_step_has_many_micro_batches(self):
        self.assert_a_stopped_rank_is_named(GRAD_ACCUM_STEPS=16)

    def assert_a_stopped_rank_is_named(self, **chosen):
        process = self.start_gpt(through=mpirun(2) + NOTED, DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1,
                                 ITERATIONS=1000000, VAL_LOSS_EVERY=0, SWA_ENABLED=0, COMM_TIMEOUT_S=4, **chosen)
        victim = None
        try:
            while not (line := process.stdout.readline()).startswith("step:5/"):
                self.assertNotEqual(line, "", "the run ended early")
            victim = int((self.folder / "out.pid1").read_text())
            os.kill(victim, signal.SIGSTOP)
            _, errors = process.communicate(timeout=100)
            self.assertEqual(process.returncode, UNAVAILABLE, errors)
            record = self.out / "comm_traces" / "rank_0"
            self.assertRegex(errors, rf"stopped or gone: rank 1; alive: 0 .*; its last collectives: {record}\n")
            self.assertIn(b"nccl:all_reduce", record.read_bytes())
        finally:
            if victim is not None and process.poll() is None:
                os.kill(victim, signal.SIGKILL)
            end(process)


@unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
class DeterministicRanksTest(RunTest):
    small = OF_RANKS

    def test_give_the_same_bits_again(self):
        def losses(output):
            return train_losses(self.train(output=output, through=mpirun(2), DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1,
                                           DETERMINISTIC=1, ITERATIONS=30))

        self.assertEqual(losses("first"), losses("second"))

    def test_agree_on_the_loss_scale(self):
        events = self.train(through=mpirun(2), DEVICE="cuda", COMPUTE_DTYPE="fp16", NUM_HEADS=2, NUM_KV_HEADS=1,
                            WARMUP_STEPS=0, MTP_NUM_HEADS=1, MTP_LOSS_WEIGHT=30000, GRAD_CLIP_NORM=0.3, ITERATIONS=40)
        overflows = sum(event["event"] == "skipped_step" for event in events)
        self.assertGreater(overflows, 0)
        steps = [event for event in events if event["event"] == "train"]
        self.assertEqual(steps[-1]["loss_scale"], 65536 / 2**overflows)
        self.assertLess(steps[-1]["train_loss"], steps[0]["train_loss"])

    def test_go_on_bit_for_bit_after_a_kill_and_with_one_rank_alone(self):
        chosen = dict(DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1, DETERMINISTIC=1, ITERATIONS=30, CHECKPOINT_EVERY=5)
        whole = train_losses(self.train(output="unharmed", through=mpirun(2), **chosen))
        process = self.launch("-n", 2, "--restarts", 1, output="killed", **chosen)
        read_until(process, "step:14/", saved_line(self.out, 10))
        os.kill(children_named("train_gpt", process.pid)[-1], signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(train_losses(read_events(self.out)), whole)
        longer = dict(chosen, ITERATIONS=33, WARMDOWN_ITERS=4)
        alone = train_losses(self.train(output="killed", **longer))
        both = train_losses(self.train(output="unharmed", through=mpirun(2), **longer))
        for ours, theirs in zip(alone, both):
            self.assertAlmostEqual(ours, theirs, delta=2e-3 * theirs)

    def test_a_rank_that_is_stopped_in_the_warm_up_is_named(self):
        if not os.environ.get("LONG_TESTS"):
            self.skipTest("takes 310 s; set LONG_TESTS=1")
        process = self.start_gpt(through=mpirun(2) + NOTED, DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1,
                                 WARMUP_STEPS=1000000, COMM_TIMEOUT_S=4)
        victim = None
        try:
            while not (line := process.stdout.readline()).startswith("warmup_step:10/"):
                self.assertNotEqual(line, "", "the run ended early")
            victim = int((self.folder / "out.pid1").read_text())
            os.kill(victim, signal.SIGSTOP)
            _, errors = process.communicate(timeout=330)
            self.assertEqual(process.returncode, UNAVAILABLE, errors)
            self.assertIn("stopped or gone: rank 1", errors)
        finally:
            if victim is not None and process.poll() is None:
                os.kill(victim, signal.SIGKILL)
            end(process)


@unittest.skipIf(gpu_count() < 2, "fewer than two GPUs")
class SlowRankTest(RunTest):
    small = OF_RANKS

    def test_a_step_longer_than_the_timeout_is_healthy(self):
        # Thousands of small micro-batches, launched kernel by kernel.
        micro_batches, timeout_s = 250, 1
        events = self.train(through=mpirun(2), DEVICE="cuda", NUM_HEADS=2, NUM_KV_HEADS=1, GRAPHS=0, FUSED=0,
                            GRAD_ACCUM_STEPS=micro_batches, TRAIN_BATCH_TOKENS=2 * micro_batches * 32, ITERATIONS=3,
                            VAL_BATCH_SIZE=2 * micro_batches * 32, WARMUP_STEPS=0, VAL_LOSS_EVERY=0,
                            COMM_TIMEOUT_S=timeout_s)
        ends = [event["train_time_ms"] for event in events if event["event"] == "train"]
        self.assertEqual(len(ends), 3)
        self.assertGreater(ends[2] - ends[1], 2000 * timeout_s, "the steps were too quick to show anything")

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_a_rank_that_writes_slowly_is_waited_for(self):
        slow = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync",
                "-e", "inject=fsync:delay_enter=2000000"]
        self.train(":", "-np", 1, BUILD / "train_gpt", through=[*mpirun(1), *slow], DEVICE="cuda", NUM_HEADS=2,
                   NUM_KV_HEADS=1, ITERATIONS=2, VAL_LOSS_EVERY=0, COMM_TIMEOUT_S=4)
        self.assertTrue((self.out / "final_model.pt").exists())


if __name__ == "__main__":
    unittest.main()
