"""Files in OUTPUT_DIR: a former run's files, the link to the log, and a closed standard output."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

from harness import RunTest, end, mpirun, read_events, train_losses, write_shard

BAD_DATA, CANNOT_CREATE = 65, 73
ENDLESS = dict(ITERATIONS=1000000, VAL_LOSS_EVERY=0, SWA_ENABLED=0)
NAMES = ["config.json", "final_model.pt", "final_model.pt.record.json", "final_model.safetensors", "log.txt", "metrics.jsonl"]


def numbered(name, number):
    stem, extension = name.split(".", 1)
    return f"{stem}.{number}.{extension}"


class OutputsTest(RunTest):
    def files(self):
        return {path.name: path.read_bytes() for path in self.out.iterdir()}

    def former_run(self, name):
        """Runs one step in the folder of that name and returns its files."""
        one_step = self.folder / "one-step"
        if not one_step.exists():
            self.train(output=one_step.name, ITERATIONS=1)
        self.out = self.folder / name
        shutil.copytree(one_step, self.out)
        return self.files()

    def until_step_1(self, **settings):
        """Returns an endless run that has done its first step."""
        process = self.start_gpt(**ENDLESS, **settings)
        self.addCleanup(process.communicate)
        self.addCleanup(end, process)
        while not (line := process.stdout.readline()).startswith("step:1/"):
            self.assertNotEqual(line, "", "the run ended before its first step")
        return process

    def kill(self, process):
        process.kill()
        process.wait()

    def bad_shards(self):
        """Returns a folder whose first training batch has a token beyond the vocabulary."""
        folder = self.folder / "bad"
        if not folder.exists():
            folder.mkdir()
            (folder / "fineweb_val_000000.bin").symlink_to(self.shards / "fineweb_val_000000.bin")
            write_shard(folder / "fineweb_train_000000.bin", [1] * 5 + [60000] + [1] * 3000)
        return folder


class FormerRunTest(OutputsTest):
    def test_a_run_that_fails_before_its_first_step_leaves_the_former_ones_files(self):
        before = self.former_run("former")
        self.assertEqual(sorted(before), NAMES)
        for attempt in range(2):
            self.fails(BAD_DATA, "fineweb_train_000000.bin", output="former", DATA_PATH=self.bad_shards())
            after = self.files()
            self.assertEqual({name: after[name] for name in NAMES}, before)
            # The new run's files are added once, however often it fails.
            self.assertEqual(sorted(after.keys() - before.keys()), ["config.new.json", "log.new.txt", "metrics.new.jsonl"])
            self.assertIn(b"train_loader:dataset:bad", after["log.new.txt"])
        self.train(output="former", ITERATIONS=1)
        self.assertEqual(sorted(self.files()), sorted(NAMES + [numbered(name, 1) for name in NAMES]))

    def test_each_restart_numbers_the_files_of_the_run_before(self):
        runs = []
        for seed in (1, 2, 3):
            self.train(output="again", ITERATIONS=2, SEED=seed)
            files = self.files()
            self.assertEqual(json.loads(files["config.json"])["settings"]["SEED"], seed)
            log = files["log.txt"].decode().splitlines()
            self.assertIn(f"seed:{seed}", log)
            self.assertEqual(log[-len(self.lines):], self.lines)
            self.assertEqual(len(train_losses(read_events(self.out))), 2)
            runs.append({name: files[name] for name in NAMES})
        for number, former in enumerate(runs[:-1], start=1):
            self.assertEqual({name: files[numbered(name, number)] for name in NAMES}, former)
        self.assertEqual(len(files), 3 * len(NAMES))

    def test_a_number_is_never_given_twice(self):
        self.former_run("gap")
        (self.out / "final_model.7.pt").write_text("an older one")
        self.train(output="gap", ITERATIONS=1)
        self.assertEqual(sorted(self.files()), sorted(NAMES + [numbered(name, 8) for name in NAMES] + ["final_model.7.pt"]))
        self.assertEqual((self.out / "final_model.7.pt").read_text(), "an older one")

    def test_a_run_killed_in_training_has_lost_neither_its_files_nor_the_former_ones(self):
        before = self.former_run("killed")
        self.kill(self.until_step_1(output="killed"))
        files = self.files()
        self.assertEqual({name: files[numbered(name, 1)] for name in NAMES}, before)
        self.assertIn("step:1/1000000 train_loss:", files["log.txt"].decode())
        self.assertNotIn("final_model.pt", files)

    def test_a_run_of_no_steps_numbers_them_too(self):
        before = self.former_run("none")
        self.train(output="none", ITERATIONS=0)
        files = self.files()
        self.assertEqual({name: files[numbered(name, 1)] for name in NAMES}, before)
        self.assertIn(b"step:0/0 val_loss:", files["log.txt"])

    def test_a_folder_in_the_place_of_a_file_is_told_at_the_start(self):
        for name in ("log.txt", "final_model.pt"):
            with self.subTest(name):
                (self.folder / f"folder-{name}" / name).mkdir(parents=True)
                self.fails(CANNOT_CREATE, name, "is a folder", output=f"folder-{name}")
                self.assertNotIn("config.json", os.listdir(self.out))


class SecondRunTest(OutputsTest):
    def test_a_second_run_in_the_same_folder_is_refused_until_the_first_has_ended(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"second{ranks}"
                settings = dict(through=mpirun(ranks)) if ranks > 1 else {}
                first = self.until_step_1(output=name)
                first.send_signal(signal.SIGSTOP)  # it holds the lock without running
                done = self.run_gpt(output=name, ITERATIONS=1, **settings)
                self.assertEqual(done.returncode, CANNOT_CREATE, done.stderr)
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
                self.assertEqual(len(errors), 1, errors)
                self.assertIn(f"pid {first.pid} on {socket.gethostname()}", errors[0])
                self.assertIsNone(first.poll())
                # The lock ends with its owner, even when that is killed.
                self.kill(first)
                self.train(output=name, ITERATIONS=1, **settings)
                self.assertEqual(sorted(self.files()), sorted(
                    NAMES + [numbered(name, 1) for name in NAMES if not name.startswith("final_model")]))


class LinkTest(OutputsTest):
    def log(self, run_id):
        return self.folder / "logs" / run_id / "log.txt"

    def run_named(self, run_id):
        done = self.run_gpt(OUTPUT_DIR=None, RUN_ID=run_id, ITERATIONS=1)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in done.stderr.splitlines() if line.startswith("WARN ")]

    def test_the_link_leads_to_the_log_after_each_run(self):
        for run_id in ("again", "group/run"):
            for _ in range(2):
                self.assertEqual(self.run_named(run_id), [])
                link = self.folder / "logs" / f"{run_id}.txt"
                self.assertTrue(link.is_symlink())
                self.assertEqual(link.read_text(), self.log(run_id).read_text())

    def test_what_is_not_our_link_stays_and_is_told(self):
        (self.folder / "logs").mkdir(exist_ok=True)
        file, link = (self.folder / "logs" / name for name in ("python.txt", "other.txt"))
        file.write_text("a script's own log\n")
        link.symlink_to("python.txt")
        for run_id in ("python", "other"):
            warnings = self.run_named(run_id)
            self.assertEqual(len(warnings), 1, warnings)
            self.assertIn(f"logs/{run_id}.txt", warnings[0])
            self.assertIn(f"logs/{run_id}/log.txt", warnings[0])
            self.assertTrue(self.log(run_id).exists())
        self.assertEqual(file.read_text(), "a script's own log\n")
        self.assertEqual(os.readlink(link), "python.txt")


class ReaderTest(OutputsTest):
    def assert_log_is_whole(self):
        log = (self.out / "log.txt").read_text().splitlines()
        for step in range(1, 5):
            self.assertTrue(any(line.startswith(f"step:{step}/4 train_loss:") for line in log))
        self.assertRegex(log[-1], r"^Code size: \d+ bytes$")
        self.assertEqual(len(train_losses(read_events(self.out))), 4)

    def test_a_reader_of_standard_output_that_goes_away_ends_no_run(self):
        process = self.start_gpt(output="head", ITERATIONS=4)
        with process.stderr:
            self.assertNotEqual(process.stdout.readline(), "")
            process.stdout.close()
            errors = process.stderr.read()
        self.assertEqual(process.wait(timeout=60), 0, errors)
        self.assert_log_is_whole()
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertRegex(errors, r"^WARN rank=0: standard output .*Broken pipe.*log file")

    def test_nor_does_it_where_standard_error_goes_the_same_way(self):
        read, write = os.pipe()
        with self.start_gpt(output="both", through=["bash", "-c", 'exec "$0" "$@" 2>&1'], stdout=write,
                            ITERATIONS=4) as process:
            os.close(write)
            os.read(read, 1)
            os.close(read)
            self.assertEqual(process.wait(timeout=60), 0)
        self.assert_log_is_whole()

    def test_a_log_file_that_cannot_be_written_is_told_once_and_ends_no_run(self):
        self.out = self.folder / "full"
        self.out.mkdir()
        (self.out / "log.txt").symlink_to("/dev/full")
        (self.out / "log.new.txt").symlink_to("/dev/full")
        self.train(output="full", ITERATIONS=4)
        self.assertEqual(len(self.warnings), 1, self.warnings)
        self.assertRegex(self.warnings[0], r"^WARN rank=0: .*log\.new\.txt.*No space left")
        self.assertTrue(any(line.startswith("step:4/4 train_loss:") for line in self.lines))


if __name__ == "__main__":
    unittest.main()
