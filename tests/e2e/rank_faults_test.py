"""A rank that dies, hangs, lags or disagrees ends the run soon, with its number and the right exit code."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

from harness import (BUILD, OF_RANKS, TORCHRUN, VOCAB, RunTest, end, is_running, mpirun, read_events, read_until,
                     write_shard)

USAGE, BAD_DATA, UNAVAILABLE, MEMORY, CONFIG = 64, 65, 69, 71, 78
HANGS_S = 100  # much longer than any wait here
ENDLESS = dict(ITERATIONS=1000000, VAL_LOSS_EVERY=0, SWA_ENABLED=0)
# Writes the pid of each rank to a file; exec keeps the pid for the program.
NOTED = ["bash", "-c", 'echo $$ >"$TMPDIR/pid$OMPI_COMM_WORLD_RANK"; exec "$0" "$@"']


@dataclasses.dataclass
class Run:
    """Two ranks under mpirun."""

    process: subprocess.Popen
    out: pathlib.Path
    pids: list


class FaultTest(RunTest):
    small = OF_RANKS

    def setUp(self):
        self.temporary = self.folder / f"tmp-{self.id().rsplit('.', 1)[-1]}"
        self.temporary.mkdir()

    def start_gpt(self, *flags, **settings):
        return super().start_gpt(*flags, **{"TMPDIR": self.temporary, **settings})

    def training(self, name, **settings):
        """Returns a run of two ranks that have trained a few steps."""
        temporary = self.temporary / name
        temporary.mkdir()
        process = self.start_gpt(through=mpirun(2) + NOTED, output=name, **dict(ENDLESS, TMPDIR=temporary, **settings))
        read_until(process, "step:5/")
        return Run(process, self.out, [int((temporary / f"pid{rank}").read_text()) for rank in (0, 1)])

    def finish(self, run):
        """Returns the run's error lines; expects that all its processes have exited."""
        try:
            _, errors = run.process.communicate(timeout=HANGS_S)
        except subprocess.TimeoutExpired:
            for pid in run.pids:
                os.kill(pid, signal.SIGKILL)
            end(run.process)
            self.fail(f"still running after {HANGS_S} s")
        self.assert_gone(*run.pids)
        return [line for line in errors.splitlines() if line.startswith("ERROR ")]

    def assert_gone(self, *pids):
        until = time.monotonic() + HANGS_S
        while living := list(filter(is_running, pids)):
            self.assertLess(time.monotonic(), until, f"left behind: {living}")
            time.sleep(0.05)

    def assert_ends(self, done, exit_code, pattern):
        """Expects this exit code and at least one error line, all matching the pattern; returns the lines."""
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertNotEqual(errors, [], done.stderr)
        for line in errors:
            self.assertRegex(line, pattern)
        return errors

    def assert_names_its_collectives(self, line, out, rank):
        path = out / "comm_traces" / f"rank_{rank}"
        self.assertTrue(line.endswith(f"; its last collectives: {path}"), line)
        self.assertIn(b"gloo:all_reduce", path.read_bytes())

    def bad_data_of_rank_1(self):
        """Returns a folder of shards."""
        folder = self.temporary / "bad"
        folder.mkdir()
        (folder / "fineweb_val_000000.bin").symlink_to(self.shards / "fineweb_val_000000.bin")
        # A micro-batch is 129 tokens, and rank 1 reads the second of each step.
        write_shard(folder / "fineweb_train_000000.bin", [1] * (129 + 5) + [VOCAB] + [1] * 3000)
        return folder


class LostRankTest(FaultTest):
    def test_a_killed_rank_ends_the_run_with_its_own_exit_code(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                run = self.training(f"victim{victim}")
                os.kill(run.pids[victim], signal.SIGKILL)
                errors = self.finish(run)
                self.assertEqual(run.process.returncode, 128 + signal.SIGKILL)
                # mpirun may kill the other rank before it has written the line.
                for line in errors:
                    self.assertRegex(line, rf"^ERROR exit=69 rank={1 - victim} step=\d+: a peer was lost at step \d+ ")

    def test_a_rank_that_only_lost_a_peer_leaves_the_first_word_to_it(self):
        # There is no launcher here that would kill the surviving rank.
        settings = dict(ENDLESS, MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port(), WORLD_SIZE=2)
        survivor = self.start_gpt(RANK=0, LOCAL_RANK=0, **settings)
        other = self.start_gpt(RANK=1, LOCAL_RANK=1, **settings)
        try:
            while not survivor.stdout.readline().startswith("step:5/"):
                self.assertIsNone(survivor.poll())
            other.kill()
            killed = time.monotonic()
            line = survivor.stderr.readline()
            told = time.monotonic()
            # It leaves a launcher time to kill it.
            self.assertIsNone(survivor.poll())
            self.assertEqual(survivor.communicate(timeout=HANGS_S)[1], "")
            self.assertEqual(survivor.returncode, UNAVAILABLE)
            self.assertLess(told - killed, time.monotonic() - told)
            self.assertRegex(line, r"^ERROR exit=69 rank=0 step=\d+: a peer was lost at step \d+ ")
            self.assert_names_its_collectives(line.rstrip(), self.out, rank=0)
            self.assertEqual([read_events(self.out)[-1][name] for name in ("event", "code")], ["exit", UNAVAILABLE])
        finally:
            for process in (survivor, other):
                process.kill()
                process.communicate()


class SilentRankTest(FaultTest):
    def message_of_other(self, run, victim, timeout_s):
        errors = self.finish(run)
        self.assertEqual(run.process.returncode, UNAVAILABLE)
        self.assertRegex(errors[0], rf"^ERROR exit=69 rank={1 - victim} step=\d+: no progress of the other ranks for "
                                    r"\d+ s \(COMM_TIMEOUT_S\); ")
        self.assertGreaterEqual(int(re.search(r"for (\d+) s", errors[0]).group(1)), timeout_s)
        self.assert_names_its_collectives(errors[0], run.out, rank=1 - victim)
        if victim != 0:  # rank 0 writes the metrics
            self.assertEqual([read_events(run.out)[-1][name] for name in ("event", "code")], ["exit", UNAVAILABLE])
        return errors[0]

    def test_a_stopped_rank_is_named_with_any_rendezvous(self):
        def address():
            return dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port())

        # A rank that is stopped during a store call holds the store's file, which is all that the others can
        # report.
        named = r"(stopped or gone: rank {0}; alive: {1} \(step |file: one of {0}\b)"
        # The runs start one after another and wait for their timeouts in parallel.
        with concurrent.futures.ThreadPoolExecutor() as waiting:
            messages = {}
            for name, victim, timeout_s, rendezvous, words in (
                # If a store is stopped with its rank, the watch knows only that.
                ("store stopped", 0, 7, address(), "rank 0 is stopped or gone"),
                ("store alive", 1, 3, address(), named.format(1, 0)),
                ("rank 0 by file", 0, 3, {}, named.format(0, 1)),
                ("rank 1 by file", 1, 3, {}, named.format(1, 0)),
            ):
                run = self.training(name.replace(" ", "-"), COMM_TIMEOUT_S=timeout_s, **rendezvous)
                os.kill(run.pids[victim], signal.SIGSTOP)
                messages[name] = words, waiting.submit(self.message_of_other, run, victim, timeout_s)
            for name, (words, message) in messages.items():
                with self.subTest(name):
                    self.assertRegex(message.result(), words)


class RendezvousTest(FaultTest):
    def test_ranks_with_different_settings(self):
        done = self.run_gpt(":", "-np", 1, "-x", "MODEL_DIM=64", BUILD / "train_gpt", through=mpirun(1), MODEL_DIM=32)
        errors = self.assert_ends(
            done, CONFIG, r"^ERROR exit=78 rank=[01]: .*rank 0 has MODEL_DIM=32, rank 1 has MODEL_DIM=64")
        self.assertLessEqual(len(errors), 2)
        self.assertFalse(self.out.exists(), "a run that never began made its folder")

    def test_a_port_that_is_in_use(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            done = self.run_gpt(RANK=0, WORLD_SIZE=2, LOCAL_RANK=0, MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                                COMM_TIMEOUT_S=4)
        self.assert_ends(done, UNAVAILABLE, rf"^ERROR exit=69 rank=0: .*MASTER_PORT.*127\.0\.0\.1:{port}\b.*in use")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_rank_that_never_joins_is_waited_for_aloud_and_named(self):
        by_address = dict(WORLD_SIZE=2, MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port())
        # The variables that sbatch sets for a program that it starts without srun.
        by_file = dict(SLURM_NTASKS=4, SLURM_JOB_ID=5, SLURM_NNODES=1)
        srun = r"\(SLURM_NTASKS\); start with srun"
        runs = (
            (dict(RANK=0, LOCAL_RANK=0, **by_address),
             r"rank 1 of 2 \(WORLD_SIZE\); start each with its RANK", r"rank 1 did not join at tcp \S+ within 4 s"),
            (dict(SLURM_PROCID=0, SLURM_LOCALID=0, **by_file),
             f"ranks 1-3 of 4 {srun}", r"rank 1 did not join at file \S+ within 4 s"),
            # Another job, whose store does not have the previous case's rank.
            (dict(SLURM_PROCID=1, SLURM_LOCALID=1, **dict(by_file, SLURM_JOB_ID=6)),
             f"ranks 0, 2-3 of 4 {srun}", r"rank 0 did not join at file \S+ within 4 s"),
            (dict(RANK=1, LOCAL_RANK=1, **dict(by_address, MASTER_PORT=self.port())),
             r"rank 0 of 2 \(WORLD_SIZE\) at MASTER_ADDR:MASTER_PORT 127\.0\.0\.1:\d+; start each", "expected rank 0 listening there"),
        )
        # Less than five seconds, after which a message is guaranteed.
        processes = [self.start_gpt(COMM_TIMEOUT_S=4, **variables) for variables, *_ in runs]
        for process, (_, waits_for, named) in zip(processes, runs):
            with self.subTest(named):
                _, errors = process.communicate(timeout=40)
                self.assertEqual(process.returncode, UNAVAILABLE, errors)
                self.assertRegex(errors, rf"^WARN rank=\d: waiting for {waits_for}.*\nERROR exit=69 rank=\d: .*{named}.*\n$")

    def test_libtorchs_own_words_are_there_for_who_asks(self):
        done = self.run_gpt(RANK=1, WORLD_SIZE=2, LOCAL_RANK=1, MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port(),
                            COMM_TIMEOUT_S=1, TORCH_CPP_LOG_LEVEL="WARNING")
        self.assertIn("[c10d] The client socket has timed out", done.stderr)

    def test_several_nodes_without_an_address(self):
        done = self.run_gpt(OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_LOCAL_RANK=0,
                            OMPI_COMM_WORLD_LOCAL_SIZE=1)
        self.assert_ends(done, USAGE, r"^ERROR exit=64 rank=0: .*several nodes.*set MASTER_ADDR")
        done = self.run_gpt(SLURM_PROCID=0, SLURM_NTASKS=2, SLURM_LOCALID=0, SLURM_JOB_ID=9, SLURM_NNODES=2)
        self.assert_ends(done, USAGE, r"^ERROR exit=64 rank=0: .*several nodes.*set MASTER_ADDR")

    def test_half_a_set_of_rank_variables(self):
        for given, missing in (
            (dict(OMPI_COMM_WORLD_SIZE=2), "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_LOCAL_RANK"),
            (dict(PMI_RANK=0), "PMI_SIZE"),
            (dict(RANK=0, WORLD_SIZE=2, MASTER_ADDR="127.0.0.1"), "LOCAL_RANK"),
            (dict(RANK=0, WORLD_SIZE=2, LOCAL_RANK=0), "MASTER_ADDR"),
        ):
            with self.subTest(given):
                self.assert_ends(self.run_gpt(**given), USAGE, f"{missing} is not")

    def test_what_a_killed_run_left_does_not_reach_the_next_of_the_same_job(self):
        settings = dict(SLURM_NTASKS=2, SLURM_JOB_ID=8, SLURM_NNODES=1, COMM_TIMEOUT_S=10)
        ranks = [dict(SLURM_PROCID=rank, SLURM_LOCALID=rank) for rank in (0, 1)]
        killed = [self.start_gpt(output="killed", SLURM_STEP_ID=0, **ENDLESS, **settings, **rank) for rank in ranks]
        while not (line := killed[0].stdout.readline()).startswith("step:1/"):
            self.assertNotEqual(line, "")
        for process in killed:
            process.kill()
            process.communicate()
        # srun counts the steps of a job.
        again = [self.start_gpt(output="again", ITERATIONS=2, SLURM_STEP_ID=1, **settings, **rank) for rank in ranks]
        for process in again:
            _, errors = process.communicate(timeout=40)
            self.assertEqual(process.returncode, 0, errors)


class OneRankFailsTest(FaultTest):
    def test_bad_data_of_one_rank_gives_the_exit_code(self):
        done = self.run_gpt(through=mpirun(2), DATA_PATH=self.bad_data_of_rank_1())
        errors = self.assert_ends(done, BAD_DATA, r"^ERROR exit=(65 rank=1|69 rank=0)\b")
        self.assertTrue(any(re.search("exit=65 rank=1.*fineweb_train_000000.bin at token 134", line)
                            for line in errors), errors)

    def test_memory_exhausted_on_one_rank(self):
        # Enough for LibTorch but not for the 2 GB table, which the other rank can allocate.
        small = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then ulimit -v 4000000; fi; exec "$0" "$@"'
        done = self.run_gpt(through=[*mpirun(2), "bash", "-c", small], BIGRAM_VOCAB_SIZE=33554432)
        self.assert_ends(done, MEMORY, r"^ERROR exit=71 rank=1\b.*MODEL_DIM|^ERROR exit=69 rank=0\b")


class TokenisingRankTest(FaultTest):
    """Text that one of two ranks tokenizes while both wait for all of it."""

    def text(self, end=b""):
        path = self.temporary / "long.txt"
        path.write_bytes(b"A document of some words.\n\n" * 150000 + end)
        return path

    def test_its_death_ends_the_other(self):
        text = self.text()
        # Reads of a megabyte, which only the tokenizing rank does.
        kill = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(text), "-e", "trace=read",
                "-e", "inject=read:signal=SIGKILL:when=2"]
        settings = dict(DATA_PATH=text, VAL_TOKENS=0, MASTER_ADDR="127.0.0.1", MASTER_PORT=self.port(), WORLD_SIZE=2,
                        LOCAL_WORLD_SIZE=2, through=kill)
        ranks = [self.start_gpt(RANK=rank, LOCAL_RANK=rank, **settings) for rank in (0, 1)]
        try:
            ended = sorted((process.communicate(timeout=HANGS_S)[1], process.returncode) for process in ranks)
        finally:
            for process in ranks:
                end(process)
        self.assertEqual([code for _, code in ended], [-signal.SIGKILL, UNAVAILABLE], ended)
        self.assertRegex(ended[1][0], r"^ERROR exit=69 rank=[01]: the process of this host that tokenized "
                                      rf"{text} \(val\) has gone at token \d+; [^\n]*\n$")

    def test_its_error_is_that_of_both(self):
        done = self.run_gpt(through=mpirun(2), DATA_PATH=self.text(b"Stra\xdfe"), VAL_TOKENS=0)
        self.assert_ends(done, BAD_DATA, r"^ERROR exit=65 rank=[01]: \S+/long.txt is not UTF-8 at byte 4050004 ")


class TorchrunsReportTest(FaultTest):
    def test_an_error_is_in_the_file_that_torchrun_named(self):
        path = self.folder / "error.json"
        for flags, settings in ((["--matrix-lrr", 1], {}), ([], dict(RANK=0)), ([], dict(VOCAB_SIZE=7))):
            path.unlink(missing_ok=True)
            done = self.run_gpt(*flags, TORCHELASTIC_ERROR_FILE=path, **settings)
            self.assertIn(json.loads(path.read_text())["message"]["message"], done.stderr.splitlines())

    @unittest.skipUnless(TORCHRUN.exists(), "no torchrun: scripts/setup.sh --tests installs it")
    def test_the_line_of_the_rank_that_failed_by_itself_is_the_root_cause(self):
        done = self.run_gpt(DATA_PATH=self.bad_data_of_rank_1(), through=[
            TORCHRUN, "--no-python", "--nproc-per-node", "2", "--master-port", str(self.port())])
        self.assertEqual(done.returncode, 1)
        cause = done.stderr.split("Root Cause")[1]
        self.assertRegex(cause, r"rank +: 1 \(local_rank: 1\)\n *exitcode +: 65 .*\n.*\n"
                                r" *traceback : ERROR exit=65 rank=1: .*fineweb_train_000000.bin")


if __name__ == "__main__":
    unittest.main()
