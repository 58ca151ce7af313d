"""A slow rank that makes progress is waited for; one without progress is ended and named with its work."""

import concurrent.futures
import os
import pathlib
import shutil
import signal
import time
import unittest

from harness import BUILD, end, mpirun, read_events, read_until
from rank_faults_test import NOTED, UNAVAILABLE, FaultTest

# Shorter than the slow rank's work, longer than the pauses of that work.
TIMEOUT_S = 4
TWO_STEPS = dict(ITERATIONS=2, WARMUP_STEPS=0, VAL_LOSS_EVERY=0, SWA_ENABLED=0, COMM_TIMEOUT_S=TIMEOUT_S)


def slowed(rank, call, *paths):
    """Returns a command for two ranks, one slowed by strace: `call` is the injection into a system call (on these
    files)."""
    name = call.split(":")[0]
    of_files = [argument for path in paths for argument in ("-P", str(path))]
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *of_files, "-e", f"trace={name}", "-e",
              f"inject={call}"]
    plain = [*NOTED, BUILD / "train_gpt"]
    slow = [*strace, *plain]
    first, second = (slow, plain) if rank == 0 else (plain, slow)
    # start_gpt itself names the second rank's program.
    return [*mpirun(1), *first, ":", "-np", "1", *second[:-1]]


class SlowRankTest(FaultTest):
    def setUp(self):
        super().setUp()
        self.runs = []
        self.addCleanup(self.end_runs)

    def end_runs(self):
        for process, temporary in self.runs:
            for pid in temporary.glob("pid*"):
                try:
                    os.kill(int(pid.read_text()), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            end(process)

    def start(self, name, through, **settings):
        """Returns the run, the folder with its ranks' pids, and its output folder."""
        temporary = self.temporary / name
        temporary.mkdir()
        process = self.start_gpt(output=name, through=through, **{**TWO_STEPS, "TMPDIR": temporary, **settings})
        self.runs.append((process, temporary))
        return process, temporary, self.out

    def stop_rank_0(self, temporary):
        """Stops rank 0 after it has answered the other rank's request, which comes after half the timeout, that it is
        writing. Rank 0 may hold the store's file."""
        rank_0 = int((temporary / "pid0").read_text())
        # The file of their store, which is already unlinked.
        store, = [file for file in pathlib.Path(f"/proc/{rank_0}/fd").iterdir()
                  if os.path.realpath(file).startswith(f"{temporary}/train_gpt-")]
        while b"writing the model" not in store.read_bytes():
            time.sleep(0.05)
        os.kill(rank_0, signal.SIGSTOP)

    def ends_well(self, process, out):
        lines, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, lines + errors)
        self.assertEqual(sorted(path.name for path in out.glob("final_model*")),
                         ["final_model.pt", "final_model.pt.record.json", "final_model.safetensors"])

    def is_ended(self, process, words):
        _, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, UNAVAILABLE, errors)
        line = next(line for line in errors.splitlines() if line.startswith("ERROR "))
        self.assertRegex(line, rf"^ERROR exit=69 rank=\d( step=\d+)?: no progress of the other ranks for \d+ s "
                               rf"\(COMM_TIMEOUT_S\); .*{words}")

    def test_ranks_that_work_for_long(self):
        shard = sorted(self.shards.glob("fineweb_train_*"))[0]
        # Four fsyncs of half the timeout each, and micro-batches of the second step that take longer than that.
        # Calls are counted per thread: the main thread reads this shard six times at the start to identify the
        # data.
        writes_slowly = slowed(0, "fsync:delay_enter=2000000")
        reads_slowly = slowed(1, "pread64:delay_enter=2500000:when=7+", shard)
        never_ends = slowed(0, "fsync:delay_enter=300000000:when=3+")
        never_reads = slowed(1, "pread64:delay_enter=300000000:when=7+", shard)
        # At the end of the run the ranks wait for the checkpoint of the first step.
        never_saves = slowed(1, "fsync:delay_enter=300000000")
        writing, saving = (rf"writing {what} to \S+: \d+ bytes so far" for what in ("the model", "a checkpoint"))
        one_reader = dict(TRAIN_PREFETCH_WORKERS=1, TRAIN_PREFETCH_QUEUE=1)
        with concurrent.futures.ThreadPoolExecutor() as waiting:
            checks = {}
            process, _, out = self.start("writes-slowly", writes_slowly)
            checks["a slow writer ends well"] = waiting.submit(self.ends_well, process, out)
            process, _, out = self.start("reads-slowly", reads_slowly, **one_reader)
            checks["slow micro-batches end well"] = waiting.submit(self.ends_well, process, out)
            process, _, out = self.start("never-ends", never_ends)
            checks["a stuck writer is named"] = waiting.submit(
                self.is_ended, process, rf"0 \(step 1, {writing}, no progress for \d+ s\)")
            process, _, out = self.start("saves-slowly", slowed(1, "fsync:delay_enter=2000000"), CHECKPOINT_EVERY=1)
            checks["a slow checkpoint ends well"] = waiting.submit(self.ends_well, process, out)
            process, _, out = self.start("never-saves", never_saves, CHECKPOINT_EVERY=1)
            checks["a rank whose checkpoint is stuck is named"] = waiting.submit(
                self.is_ended, process, rf"1 \(step 1, {saving}, no progress for \d+ s\)")
            process, _, out = self.start("never-reads", never_reads, **one_reader)
            checks["a reader of dead storage is named"] = waiting.submit(
                self.is_ended, process, r"1 \(step \d, reading tokens, no progress for \d+ s\)")
            process, temporary, _ = self.start("stopped", never_ends)
            read_until(process, "step:1/")
            self.stop_rank_0(temporary)
            checks["a writer that is stopped is named"] = waiting.submit(
                self.is_ended, process, rf"(stopped or gone: rank|file: one of) 0 \(\d+ s ago: step 1, {writing}\)")
            for name, check in checks.items():
                with self.subTest(name):
                    check.result()

    def test_ranks_that_read_a_checkpoint_for_long(self):
        self.train(ranks=2, output="saved", **dict(TWO_STEPS, CHECKPOINT_EVERY=1))
        saved = self.out

        def resume(name, rank, call):
            out = shutil.copytree(saved, self.folder / name)
            files = sorted((out / "checkpoints" / "step-00000002").glob("rank-*"))
            self.assertEqual(len(files), 2)
            return self.start(name, slowed(rank, call, *files), ITERATIONS=3, CHECKPOINT_EVERY=1, COMM_TIMEOUT_S=6)

        with concurrent.futures.ThreadPoolExecutor() as waiting:
            process, _, out = resume("reads-checkpoint-slowly", 0, "pread64:delay_enter=4000000:when=1..3")
            slow = waiting.submit(self.ends_well, process, out)
            process, _, _ = resume("never-reads-checkpoint", 1, "pread64:delay_enter=300000000:when=5+")
            stuck = waiting.submit(self.is_ended, process, r"1 \(step 0, reading \S+/step-00000002: \d+ bytes so far, "
                                                           r"no progress for \d+ s\)")
            slow.result()
            self.assertIn("resume", [event["event"] for event in read_events(out)])
            stuck.result()


if __name__ == "__main__":
    unittest.main()
