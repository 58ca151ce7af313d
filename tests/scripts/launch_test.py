"""Runs scripts/launch.sh, under the real mpirun, on a train_gpt that only records its starts and signals."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "launch.sh"
PATIENCE = 60  # seconds, of which a busy machine may need some

# In its n-th start each rank follows the n-th word of PLAN. A number: exits with that status; above 128, rank 0 dies
# of that signal and rank 1 is left to mpirun. wait: exits with 75 after a SIGUSR1. stay: dies of the second one.
# deaf: has no handler. last: exits with 75 when the file "released" exists. No rank exits before the other has recorded
# as much, since mpirun then kills that.
PROGRAM = """
import os, pathlib, signal, sys, time
rank, folder = int(os.environ["OMPI_COMM_WORLD_RANK"]), pathlib.Path(os.environ["RECORD"])
end = time.monotonic() + 60

def record(number):
    path = folder / str(number)
    return path.read_text().splitlines() if path.exists() else []

def wait_until(done):
    while not done():
        if time.monotonic() > end:
            sys.exit(1)
        time.sleep(0.01)

def note(line):
    with (folder / str(rank)).open("a") as file:
        file.write(line + "\\n")

before = len(record(rank))
word = os.environ["PLAN"].split()[sum(line.startswith("start") for line in record(rank))]
if word in ("wait", "stay"):
    signal.signal(signal.SIGUSR1, lambda *_: note("USR1"))
note(f"start RUN_ID={os.environ['RUN_ID']} {' '.join(sys.argv[1:])}")
lines = before + {"wait": 2, "stay": 3, "deaf": 2}.get(word, 1)
wait_until(lambda: min(len(record(0)), len(record(1))) >= lines)
died_of = signal.SIGUSR1 if word == "stay" else int(word) - 128 if word.isdigit() else 0
if died_of > 0 and (rank == 0 or word == "stay"):
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.kill(os.getpid(), died_of)
wait_until(lambda: died_of <= 0 and (word != "last" or (folder / "released").exists()))
sys.exit(75 if word in ("wait", "last") else int(word))
"""

# mpirun, which takes its time before it knows what to do with a signal.
SLOW_MPIRUN = """#!/bin/sh
echo start >"$RECORD/mpirun_started"
until [ -e "$RECORD/signalled" ]; do sleep 0.01; done
sleep 0.3
exec {mpirun} "$@"
"""


class Launch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="launch-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write_program("train_gpt", f"#!{sys.executable} -IS\n{PROGRAM}")

    def write_program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def start(self, plan, *arguments, **environment):
        env = os.environ | {"RUN_ID": "", "OUTPUT_DIR": "", "BUILD_DIR": str(self.folder), "RECORD": str(self.folder),
                            "DEVICE": "cpu", "PLAN": plan, "OMPI_MCA_odls_base_sigkill_timeout": "0"} | environment
        # SIGINT is ignored in background jobs of a shell, and a script cannot change that.
        self.job = subprocess.Popen([SCRIPT, "-n", "2", *map(str, arguments)], env=env, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(self.job.kill)

    def finish(self):
        """→ exit status; standard error is in self.lines."""
        out, err = self.job.communicate(timeout=PATIENCE)
        self.output, self.lines = out, err.splitlines()
        return self.job.returncode

    def launch(self, *arguments, **environment):
        self.start(*arguments, **environment)
        return self.finish()

    def record(self, name):
        path = self.folder / str(name)
        return path.read_text().splitlines() if path.exists() else []

    def starts(self):
        """The lines of rank 0's starts, which are rank 1's too."""
        zero, one = ([line for line in self.record(rank) if line.startswith("start")] for rank in (0, 1))
        self.assertEqual(zero, one)
        return zero

    def await_lines(self, count, *names):
        end = time.monotonic() + PATIENCE
        while any(len(self.record(name)) < count for name in names):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_starts_again_after_a_lost_peer_and_a_killed_rank(self):
        self.assertEqual(0, self.launch("69 137 0", "--restarts", 5, "--seed", 7), self.lines)
        self.assertEqual(3, len(self.starts()))
        self.assertEqual(1, len(set(self.starts())), "each start has the same RUN_ID and arguments")
        run_id = re.fullmatch(r"start RUN_ID=([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) --seed 7", self.starts()[0])
        self.assertEqual([f"launch.sh: RUN_ID={run_id[1]} for all starts of this run",
                          "launch.sh: the run ended with exit code 69; starting it again (1 of 5)",
                          "launch.sh: the run ended with exit code 137; starting it again (2 of 5)"], self.lines)

    def test_gives_up_after_n_restarts(self):
        self.assertEqual(143, self.launch("75 143 0", "--restarts", 1, RUN_ID="mine"), self.lines)
        self.assertEqual(["start RUN_ID=mine "] * 2, self.starts())
        self.assertEqual(["launch.sh: the run ended with exit code 75; starting it again (1 of 1)"], self.lines)

    def test_passes_other_exit_codes_on(self):
        for word, arguments in (("65", ("--restarts", "3")), ("69", ())):
            (self.folder / "0").unlink(missing_ok=True)
            (self.folder / "1").unlink(missing_ok=True)
            self.assertEqual(int(word), self.launch(word + " 0", *arguments, RUN_ID="mine"), self.lines)
            self.assertEqual(1, len(self.starts()))
            self.assertEqual([], self.lines)

    def test_a_run_with_a_name_keeps_it(self):
        self.write_program("mpirun", '#!/bin/sh\necho "RUN_ID=$RUN_ID"\n')
        path = f"{self.folder}:{os.environ['PATH']}"
        named, unnamed = self.folder / "named.env", self.folder / "unnamed.env"
        named.write_text("SEED=1\n OUTPUT_DIR = 'here'\n")
        unnamed.write_text("# RUN_ID=1\nRUN_ID=  # none\nMY_RUN_ID=1\n")
        for arguments in (["--run-id", "a"], ["--seed", "1", "--output-dir=b"], ["--config", named], [f"--config={named}"]):
            self.launch("0", "--restarts", 1, *arguments, PATH=path)
            self.assertEqual(("RUN_ID=\n", []), (self.output, self.lines), arguments)
        for arguments in ([], ["--config", unnamed], ["--run-identity", "a"]):
            self.launch("0", "--restarts", 1, *arguments, PATH=path)
            self.assertRegex(self.output, "RUN_ID=.{36}\n", arguments)
            self.assertEqual(1, len(self.lines))

    def test_a_signal_reaches_the_ranks_and_ends_the_run(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                for rank in (0, 1):
                    (self.folder / str(rank)).unlink(missing_ok=True)
                self.start("wait 0", "--restarts", 3, RUN_ID="mine")
                self.await_lines(1, 0, 1)
                self.job.send_signal(number)
                self.assertEqual((75, []), (self.finish(), self.lines))
                self.assertEqual([["start RUN_ID=mine ", "USR1"]] * 2, [self.record(0), self.record(1)])

    def test_a_second_signal_is_passed_on_too(self):
        self.start("stay 0", "--restarts", 3, RUN_ID="mine")
        self.await_lines(1, 0, 1)
        self.job.send_signal(signal.SIGTERM)
        self.await_lines(2, 0, 1)
        self.job.send_signal(signal.SIGINT)
        self.assertEqual((128 + signal.SIGUSR1, []), (self.finish(), self.lines))
        self.assertEqual([["start RUN_ID=mine ", "USR1", "USR1"]] * 2, [self.record(0), self.record(1)])

    def test_ranks_without_a_handler_yet(self):
        self.start("deaf 0", "--restarts", 3, RUN_ID="mine")
        self.await_lines(1, 0, 1)
        self.job.send_signal(signal.SIGTERM)
        self.assertEqual((75, []), (self.finish(), self.lines))
        self.assertEqual(1, len(self.starts()))

    def test_a_signal_waits_for_mpirun(self):
        self.write_program("mpirun", SLOW_MPIRUN.format(mpirun=shutil.which("mpirun")))
        self.start("wait 0", "--restarts", 3, RUN_ID="mine", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.await_lines(1, "mpirun_started")
        self.job.send_signal(signal.SIGTERM)
        (self.folder / "signalled").touch()
        self.assertEqual((75, []), (self.finish(), self.lines))
        self.assertEqual(["start"], self.record("mpirun_started"))

    def start_and_kill_mpirun(self):
        """Starts ranks that outlive their mpirun."""
        self.start("last 0", "--restarts", 3, RUN_ID="mine")
        self.await_lines(1, 0, 1)
        children = pathlib.Path(f"/proc/{self.job.pid}/task/{self.job.pid}/children").read_text().split()
        mpirun, = (pid for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "mpirun\n")
        os.kill(int(mpirun), signal.SIGKILL)
        time.sleep(0.5)
        self.assertEqual(1, len(self.starts()))

    def test_starts_again_when_the_ranks_of_a_killed_mpirun_have_ended(self):
        self.start_and_kill_mpirun()
        (self.folder / "released").touch()
        self.assertEqual(0, self.finish(), self.lines)
        self.assertEqual(2, len(self.starts()))
        self.assertEqual(["launch.sh: the run ended with exit code 137; starting it again (1 of 3)"], self.lines)

    def test_two_signals_end_the_wait_for_the_ranks_of_a_killed_mpirun(self):
        self.addCleanup((self.folder / "released").touch)
        self.start_and_kill_mpirun()
        self.job.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        self.assertIsNone(self.job.poll(), "one signal: the ranks save")
        self.job.send_signal(signal.SIGINT)
        self.assertEqual((137, 1), (self.job.wait(PATIENCE), len(self.starts())))
        (self.folder / "released").touch()  # the ranks keep its output open
        self.finish()

    def test_refuses_what_is_no_number(self):
        for number in ("", "-1", "two", "1.5"):
            self.assertEqual(64, self.launch("0", "--restarts", number))
            self.assertIn(f'--restarts "{number}"', self.lines[0])


if __name__ == "__main__":
    unittest.main()
