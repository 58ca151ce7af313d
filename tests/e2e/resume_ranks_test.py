"""Several ranks stop together, save together, and resume with the same or another number of ranks."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from safetensors.numpy import load_file

from harness import (BUILD, TWO_LAYERS, RunTest, children_named, end, is_running, mpirun, read_events, read_until, saved_line,
                     train_losses)

STOPPED, CONFIG = 75, 78
STEPS = dict(ITERATIONS=10, WARMDOWN_ITERS=6, CHECKPOINT_EVERY=3, VAL_LOSS_EVERY=5)
ENDLESS = dict(STEPS, ITERATIONS=1000000, WARMDOWN_ITERS=0)
SHARDED = dict(VOCAB_SIZE=32768, TIE_EMBEDDINGS=0, TOKENIZER_PATH="", EMA_DECAY=0.9, ADAM_EPS=1e-4, ITERATIONS=8,
               VAL_LOSS_EVERY=0, VAL_TOKENS=64, VAL_BATCH_SIZE=64, TRAIN_BATCH_TOKENS=64, TRAIN_SEQ_LEN=8)
MICRO_BATCHES = 4  # of all ranks in a step
LONG_EVALUATION = dict(EVAL_STRIDE=1, VAL_TOKENS=8192, VAL_BATCH_SIZE=4096, VAL_LOSS_EVERY=0)  # long enough for a signal to arrive


def rank_of(process, rank):
    """Returns the pid of a rank that mpirun has started."""
    for pid in children_named("train_gpt", process.pid):
        if f"OMPI_COMM_WORLD_RANK={rank}\0" in pathlib.Path(f"/proc/{pid}/environ").read_text():
            return pid
    raise AssertionError(f"no rank {rank}")


def is_pending(signal_number, pid):
    """Returns whether that signal is pending for the process."""
    pending = re.search(r"^ShdPnd:\s*(\w+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]
    return int(pending, 16) >> (signal_number - 1) & 1 == 1


class RanksTest(RunTest):
    small = TWO_LAYERS

    def start_gpt(self, *flags, ranks=1, **settings):
        # Without `ranks` a launcher starts two.
        micro_batches = MICRO_BATCHES // 2 if "through" in settings else MICRO_BATCHES // ranks
        return super().start_gpt(*flags, ranks=ranks, **dict(settings, GRAD_ACCUM_STEPS=micro_batches))

    def ranks(self, count, **settings):
        return self.train(ranks=count, **dict(STEPS, **settings))

    def losses_of_two(self):
        """Returns the losses of two uninterrupted ranks, trained once."""
        if not (self.folder / "two").exists():
            self.ranks(2, output="two")
        return train_losses(read_events(self.folder / "two"))

    def interrupt(self, line, signal_number, rank=None, saved=(), **settings):
        """Runs two ranks by mpirun, or `ranks` without, and sends the signal to what runs them, or to one rank, when
        the line appears and those steps are saved; returns the finished process."""
        start = {} if "ranks" in settings else dict(through=mpirun(2))
        with self.start_gpt(**start, **dict(STEPS, **settings)) as process:
            try:
                read_until(process, line, *(saved_line(self.out, step) for step in saved))
                if rank is None:
                    process.send_signal(signal_number)
                else:
                    os.kill(rank_of(process, rank), signal_number)
                output, errors = process.communicate(timeout=60)
            finally:
                end(process)
        return subprocess.CompletedProcess([], process.returncode, output, errors)

    def wait_for_the_end_of(self, pids):
        until = time.monotonic() + 30
        while living := list(filter(is_running, pids)):
            self.assertLess(time.monotonic(), until, f"left behind: {living}")
            time.sleep(0.05)

    def assert_stopped(self, done):
        self.assertEqual(done.returncode, STOPPED, done.stdout + done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertRegex(errors[0], r"^ERROR exit=75 rank=0 step=\d+: stopped by .* after step \d+, state saved in ")

    def test_a_signal_to_mpirun_or_to_one_rank_stops_all_at_the_same_step(self):
        whole = self.losses_of_two()
        for rank in (None, 0, 1):
            with self.subTest(rank=rank):
                output = f"stopped{rank}"
                self.assert_stopped(self.interrupt("step:2/", signal.SIGUSR1, rank, output=output))
                self.assertEqual(train_losses(self.ranks(2, output=output)), whole)

    def test_a_signal_in_the_final_evaluations_stops_all(self):
        whole = self.ranks(2, output="evaluated", **dict(LONG_EVALUATION, EVAL_STRIDE=0))
        for every in (0, 3):
            settings = dict(output=f"evaluating{every}", CHECKPOINT_EVERY=every)
            done = self.interrupt("Serialized model:", signal.SIGUSR1, 1, **settings, **LONG_EVALUATION)
            self.assert_stopped(done)
            events = self.ranks(2, **settings, **dict(LONG_EVALUATION, EVAL_STRIDE=0))
            self.assertEqual(train_losses(events), train_losses(whole))
            self.assertEqual([e["val_loss"] for e in events if e["event"] == "final"],
                             [e["val_loss"] for e in whole if e["event"] == "final"])

    def test_a_signal_while_the_other_rank_waits_at_the_end_stops_both(self):
        settings = dict(STEPS, ITERATIONS=2, CHECKPOINT_EVERY=0, VAL_LOSS_EVERY=0, EVAL_STRIDE=16)
        lines = len(self.ranks(2, output="ended", **settings))
        # Rank 0 takes long to write the last event before `exit`, after its line on the terminal; rank 1 has none
        # to write.
        out = self.folder / "at-the-end"
        slow = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-P", out / "metrics.jsonl", "-e", "trace=write",
                "-e", f"inject=write:delay_enter=3000000:when={lines - 1}", BUILD / "train_gpt"]
        for told in (0, 1):
            with self.subTest(rank=told), self.start_gpt(through=[*mpirun(1), *slow, ":", "-np", "1"], output=out.name,
                                                         **settings) as process:
                try:
                    read_until(process, "final_sliding_window")
                    os.kill(rank_of(process, told), signal.SIGUSR1)
                    output, errors = process.communicate(timeout=60)
                finally:
                    end(process)
                self.assert_stopped(subprocess.CompletedProcess([], process.returncode, output, errors))
            shutil.rmtree(out)

    def test_ranks_whose_launcher_is_killed_stop_as_if_they_had_been_told_to(self):
        endless = dict(ENDLESS, CHECKPOINT_EVERY=0)  # a short run might end first on a busy machine
        # Killing launch.sh also kills its mpirun.
        for count, start in ((1, lambda: self.start_gpt(through=mpirun(1), output="orphan", **endless)),
                             (2, lambda: self.launch("-n", 2, output="orphans", **endless))):
            with self.subTest(ranks=count):
                with start() as process:
                    read_until(process, "step:2/")
                    ranks = children_named("train_gpt", process.pid)
                    process.kill()
                    process.communicate(timeout=30)
                self.assertEqual(len(ranks), count)
                self.wait_for_the_end_of(ranks)
                saved, = (self.out / "checkpoints").glob("step-*")
        ended = dict(endless, ITERATIONS=int(saved.name.removeprefix("step-")) + 3)
        whole = train_losses(self.ranks(2, output="never", **ended))
        self.assertEqual(train_losses(self.ranks(2, output="orphans", **ended)), whole)
        self.assertEqual(len([e for e in read_events(self.out) if e["event"] == "resume"]), 1)

    def test_a_killed_rank_costs_the_steps_since_the_last_checkpoint(self):
        whole = self.losses_of_two()
        done = self.interrupt("step:7/", signal.SIGKILL, 1, saved=[6], output="harmed")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL)
        events = self.ranks(2, output="harmed")
        self.assertEqual(train_losses(events), whole)
        self.assertEqual([event["step"] for event in events if event["event"] == "resume"], [6])

    def test_the_launch_script_stops_a_run_with_75_and_starts_it_again_after_a_killed_rank(self):
        whole = self.losses_of_two()
        process = self.launch("-n", 2, output="launched", **STEPS)
        read_until(process, "step:2/")
        # The ranks stand still until they are signalled, so that they stop with steps left to do.
        ranks = children_named("train_gpt", process.pid)
        for rank in ranks:
            os.kill(rank, signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        while not all(is_pending(signal.SIGUSR1, rank) for rank in ranks):
            time.sleep(0.01)
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, STOPPED, errors)
        process = self.launch("-n", 2, "--restarts", 2, output="launched", **STEPS)
        read_until(process, "step:7/")
        os.kill(children_named("train_gpt", process.pid)[-1], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(train_losses(read_events(self.out)), whole)

    def test_the_launch_script_goes_on_after_a_killed_mpirun_where_its_ranks_stopped(self):
        endless = dict(ENDLESS, CHECKPOINT_EVERY=0)
        process = self.launch("-n", 2, "--restarts", 1, output="mpirun-killed", **endless)
        read_until(process, "step:2/")
        launcher, = children_named("mpirun", process.pid)
        os.kill(launcher, signal.SIGKILL)
        read_until(process, "resume:")
        read_until(process, "step:")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, STOPPED, errors)
        losses = train_losses(read_events(self.out))
        self.assertEqual(train_losses(self.ranks(2, output="undisturbed", **dict(endless, ITERATIONS=len(losses)))), losses)

    def test_another_number_of_ranks_goes_on_with_the_same_tokens(self):
        # A head and a table of 32,768 tokens are sharded, like the banks and averages. Between AdamW updates the
        # sums of the ranks' gradients are sharded too.
        for name, settings in (("small", {}), ("sharded", SHARDED), ("summed", dict(ADAM_EVERY=3, NORMUON=1))):
            with self.subTest(name):
                self.go_on_with_four_ranks_and_with_one(name, dict(STEPS, **settings))

    def go_on_with_four_ranks_and_with_one(self, name, settings):
        whole = self.ranks(2, output=f"{name}-two", **settings)
        weights = load_file(self.out / "final_model.safetensors")
        tokens = [event["token_offset"] for event in whole if event["event"] == "train"]
        output = f"{name}-resized"
        for ranks, line in ((2, "step:2/"), (4, "step:5/")):
            self.assert_stopped(self.interrupt(line, signal.SIGUSR1, ranks=ranks, output=output, **settings))
        events = self.ranks(1, output=output, **settings)
        self.assertEqual([event["token_offset"] for event in events if event["event"] == "train"], tokens)
        for ours, theirs in zip(train_losses(events), train_losses(whole)):
            self.assertAlmostEqual(ours / theirs, 1, delta=2e-5)
        for parameter, value in load_file(self.out / "final_model.safetensors").items():
            self.assertLessEqual(abs(value - weights[parameter]).max(initial=0), 1e-4, parameter)

    def test_the_strided_order_and_the_scripts_quirks_go_on_with_as_many_ranks_only(self):
        # Each rank keeps its own gradients in the multi-token heads, which affect the clipping of all others.
        strided = dict(LOADER_ORDER="strided", RECORD_QUIRKS=1, MTP_NUM_HEADS=1, MTP_LOSS_WEIGHT=4)
        whole = train_losses(self.ranks(2, output="strided-whole", **strided))
        self.assert_stopped(self.interrupt("step:2/", signal.SIGUSR1, ranks=2, output="strided", **strided))
        self.fails(CONFIG, "ranks (LOADER_ORDER=strided)=2, now 1", "ranks (RECORD_QUIRKS=1)=2, now 1", output="strided",
                   **dict(STEPS, **strided))
        self.assertEqual(train_losses(self.ranks(2, output="strided", **strided)), whole)


if __name__ == "__main__":
    unittest.main()
