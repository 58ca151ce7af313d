"""A failed or slow save loses nothing: kills at every fsync and rename, a full disk, a slow disk."""

import collections
import itertools
import os
import re
import shutil
import signal
import subprocess
import unittest

from harness import OF_RANKS, TWO_LAYERS, RunTest, end, mpirun, train_losses

IO = 74
STEPS = dict(ITERATIONS=6, WARMDOWN_ITERS=4, CHECKPOINT_EVERY=2, VAL_LOSS_EVERY=0)


def strace(*arguments):
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync,rename", *arguments]


class SavedTest(RunTest):
    small = TWO_LAYERS

    def first_checkpoint(self, **settings):
        """Copies a run of STEPS with these settings that was killed after its first checkpoint."""
        with self.start_gpt(output="first", **dict(STEPS, **settings)) as process:
            for line in process.stdout:
                if line.startswith("checkpoint:"):
                    process.kill()
                    break
            process.communicate()
        return self.out


class ReadTest(SavedTest):
    small = OF_RANKS

    def test_each_rank_reads_each_byte_once(self):
        first = self.first_checkpoint()
        # strace writes one file per thread, with one line per call.
        traced = 'exec strace -ff -qq -y -e trace=read,pread64 -o "$HOME/reads$OMPI_COMM_WORLD_RANK" "$0" "$@"'
        self.train(through=[*mpirun(2), "bash", "-c", traced], output=first.name, HOME=self.folder,
                   **dict(STEPS, ITERATIONS=3))
        for rank in (0, 1):
            read = collections.Counter()
            for line in "".join(path.read_text() for path in self.folder.glob(f"reads{rank}.*")).splitlines():
                if call := re.search(r"<(\S+/checkpoints/step-00000002/[^>]+)>, .* = (\d+)$", line):
                    read[call[1]] += int(call[2])
            folder = first / "checkpoints" / "step-00000002"
            self.assertEqual(read, {str(path): path.stat().st_size for path in folder.iterdir()})


class KilledWriterTest(RunTest):
    small = TWO_LAYERS

    def test_what_it_had_half_written_is_removed_by_the_next_run(self):
        settings = dict(STEPS, ITERATIONS=1, CHECKPOINT_EVERY=0)
        # The main thread's first two fsyncs belong to config.json.
        done = self.run_gpt(through=strace("-e", "inject=fsync:signal=SIGKILL:when=3"), output="half", **settings)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stdout + done.stderr)
        self.assertEqual(len(list(self.out.glob("final_model.safetensors.tmp.*"))), 1)
        foreign = self.out / "notes.tmp.1"
        foreign.write_text("not ours")
        self.train(output="half", **settings)
        self.assertEqual(list(self.out.glob("*.tmp.*")), [foreign])


class KilledSaveTest(SavedTest):
    def test_a_kill_at_every_fsync_and_rename_of_a_save_leaves_a_checkpoint_to_resume_from(self):
        settings = dict(STEPS, ITERATIONS=4)
        whole = train_losses(self.train(output="whole", **settings))
        first = self.first_checkpoint(**settings)
        for call in ("fsync", "fdatasync", "rename"):
            for number in itertools.count(1):
                output = f"{call}{number}"
                shutil.copytree(first, self.folder / output)
                # A save runs in its own thread, and strace counts the calls per thread.
                kill = strace("-e", f"inject={call}:signal=SIGKILL:when={number}")
                done = self.run_gpt(through=kill, output=output, **settings)
                if done.returncode == 0:
                    break  # a save has fewer calls of this kind
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stdout + done.stderr)
                losses = train_losses(self.train(output=output, **settings))
                self.assertEqual(losses, whole, f"killed at {call} {number}")
                self.assertEqual(self.hidden(), [])
            if call != "fdatasync":  # only large files use fdatasync
                self.assertGreater(number, 2, f"no {call} was met")

    def hidden(self):
        return [path.name for path in (self.out / "checkpoints").iterdir() if path.name.startswith(".")]


class FullDiskTest(RunTest):
    """The checkpoints' folder, or OUTPUT_DIR itself, is on a file system of a few pages."""

    small = TWO_LAYERS

    def setUp(self):
        self.mounted = self.folder / self.id().rsplit(".", 1)[-1]
        (self.mounted / "checkpoints").mkdir(parents=True)

    def run_on_full_disk(self, *signals, folder="checkpoints", **settings):
        # In a separate mount namespace, which ends with the run.
        mount = f'mount -t tmpfs -o size=64k none "{self.mounted / folder}" && exec "$0" "$@"'
        own = [] if os.geteuid() == 0 else ["--map-root-user"]
        space = ["unshare", "--mount", *own, "bash", "-c", mount]
        if subprocess.run([*space[:-2], "-c", mount, "true"], capture_output=True).returncode:
            self.skipTest("no mount name spaces here")
        with self.start_gpt(through=space, output=self.mounted.name, **dict(STEPS, **settings)) as process:
            try:
                lines = []
                for line in process.stdout:
                    lines.append(line)
                    if signals and line.startswith("step:3/"):
                        process.send_signal(signals[0])
                errors = process.stderr.read()
                process.wait(timeout=60)
            finally:
                end(process)
        return subprocess.CompletedProcess([], process.returncode, "".join(lines), errors)

    def test_a_periodic_checkpoint_is_a_warning_and_training_goes_on(self):
        done = self.run_on_full_disk()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step:6/6 train_loss", done.stdout)
        warnings = [line for line in done.stderr.splitlines() if "no checkpoint" in line]
        self.assertEqual(len(warnings), 3, done.stderr)
        for warning in warnings:
            self.assertIn("No space left on device", warning)

    def test_the_last_save_of_a_run_that_was_told_to_stop_is_an_error(self):
        done = self.run_on_full_disk(signal.SIGTERM, CHECKPOINT_EVERY=0, ITERATIONS=1000000)
        self.assertEqual(done.returncode, IO, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn("could not be saved", errors[0])
        self.assertIn("No space left on device", errors[0])

    def test_a_model_that_cannot_be_written_is_an_error_of_the_last_step(self):
        done = self.run_on_full_disk(folder=".", CHECKPOINT_EVERY=0)
        self.assertEqual(done.returncode, IO, done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertRegex(errors[0], r"^ERROR exit=74 rank=0 step=6: .*final_model.*No space left on device")


class SlowDiskTest(RunTest):
    small = TWO_LAYERS

    def test_slow_storage_costs_no_losses_and_is_in_the_log(self):
        whole = train_losses(self.train(output="fast", **STEPS))
        events = self.train(output="slow", through=strace("-e", "inject=fsync:delay_enter=300000"), **STEPS)
        self.assertEqual(train_losses(events), whole)
        saved = [event for event in events if event["event"] == "checkpoint"]
        self.assertEqual([event["step"] for event in saved], [2, 4, 6])
        self.assertGreater(min(event["write_ms"] for event in saved), 600)
        self.assertGreater(max(event["stall_ms"] for event in saved), 100)  # waited for the previous save


if __name__ == "__main__":
    unittest.main()
