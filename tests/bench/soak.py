#!/usr/bin/env python3
"""Kill one training run repeatedly; check that it loses nothing, and measure how soon it continues.

    soak.py [--program build/train_gpt] [--kills 100] [--seed 1] [--ranks 2] [SETTING=VALUE ...]

Ranks train on synthetic tokens on the CPU under mpirun, with a checkpoint every 5 steps. mpirun or one of the ranks,
chosen at random, gets SIGKILL or SIGTERM at a random moment after the launch; then the same command starts again.
After the last kill the run does 20 more steps; then a second run does the same number of steps undisturbed. Prints
the time from each kill to the first new step (median, 90 %, worst), the exit codes, and the cost of a checkpoint.
Exit status 0 if losses and final weights are bitwise equal to the undisturbed run's, no checkpoint was ever found
damaged, and no process long outlived its launcher; else 1.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from kill_drill import SETTINGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = SETTINGS | {"CHECKPOINT_EVERY": 5, "WARMDOWN_ITERS": 0, "VAL_LOSS_EVERY": 100, "WARMUP_STEPS": 1, "MODEL_DIM": 32,
                  "TRAIN_SEQ_LEN": 32, "TRAIN_BATCH_TOKENS": 512, "VAL_TOKENS": 1024, "VAL_BATCH_SIZE": 1024}
WRAPPER = 'echo $$ >"$TMPDIR/pid$OMPI_COMM_WORLD_RANK"; exec "$0"'


def launch(program, ranks, folder, steps):
    env = os.environ | {name: str(value) for name, value in RUN.items()}
    env |= {"OUTPUT_DIR": "out", "TMPDIR": str(folder), "ITERATIONS": str(steps)}
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return subprocess.Popen(["mpirun", "--quiet", *root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks),
                             "bash", "-c", WRAPPER, program], env=env, cwd=folder, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def events(folder):
    found = []
    try:
        for line in (folder / "out" / "metrics.jsonl").read_text().splitlines():
            found.append(json.loads(line))
    except (FileNotFoundError, json.JSONDecodeError):
        pass  # does not exist yet, or its last line is being written
    return found


def last_step(folder):
    return max((event["step"] for event in events(folder) if event["event"] == "train"), default=0)


def pids_of(folder, ranks):
    pids = []
    for rank in range(ranks):
        try:
            pids.append(int((folder / f"pid{rank}").read_text()))
        except (FileNotFoundError, ValueError):
            pass
    return pids


def ranks_in(folder):
    """Returns the pids of all processes whose working directory is the folder."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").resolve() == folder.resolve():
                found.append(int(entry.name))
        except OSError:
            pass  # it has exited
    return found


def wait_for_the_end(process, folder):
    """Kills the processes that still exist after 20 s and returns their number."""
    process.wait(timeout=120)
    deadline = time.monotonic() + 20
    while left := ranks_in(folder):
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return len(left)
        time.sleep(0.02)
    return 0


def disturb(program, folder, options, choice):
    """Starts and kills the run once; returns the time, exit code, signal name and target, standard error, processes left."""
    for rank in range(options.ranks):
        (folder / f"pid{rank}").unlink(missing_ok=True)
    process = launch(program, options.ranks, folder, steps=1000000)
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    time.sleep(choice.uniform(0, options.longest))
    pids = pids_of(folder, options.ranks)
    target, number = choice.choice([process.pid, *pids]), choice.choice([signal.SIGKILL, signal.SIGTERM])
    killed = time.monotonic()
    try:
        os.kill(target, number)
    except ProcessLookupError:
        sys.exit(f"the run ended by itself: exit {process.wait()}\n{process.stderr.read()}")
    left = wait_for_the_end(process, folder)
    reader.join()
    who = "mpirun" if target == process.pid else f"rank {pids.index(target)}"
    return killed, process.returncode, number.name, who, errors[0], left


def finish(program, folder, ranks, steps):
    process = launch(program, ranks, folder, steps)
    errors = process.communicate()[1]
    if process.returncode:
        sys.exit(f"the run ended with {process.returncode}:\n{errors}")
    return errors


class NextStep(threading.Thread):
    """Returns the time of the first step that was not done before the kill."""

    def __init__(self, folder, killed, step):
        super().__init__(daemon=True)
        self.folder, self.killed, self.step, self.seconds = folder, killed, step, None

    def run(self):
        while last_step(self.folder) <= self.step:
            time.sleep(0.02)
        self.seconds = time.monotonic() - self.killed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "train_gpt")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--longest", type=float, default=3, help="seconds from a start to its kill, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("settings", nargs="*", metavar="SETTING=VALUE", help="of the run, such as LOADER_ORDER=documents")
    options = parser.parse_args()
    RUN.update(setting.split("=", 1) for setting in options.settings)
    program, choice = options.program.resolve(), random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="train_gpt-soak-") as temporary:
        calm, harmed = pathlib.Path(temporary, "calm"), pathlib.Path(temporary, "harmed")
        calm.mkdir(), harmed.mkdir()
        codes, damaged, left, waits, saves = collections.Counter(), 0, 0, [], []
        for kill in range(options.kills):
            killed, code, name, who, errors, behind = disturb(program, harmed, options, choice)
            codes[f"{name} to {'mpirun' if who == 'mpirun' else 'a rank'}: {code}"] += 1
            damaged += errors.count("is skipped")
            left += behind
            if waits and waits[-1].seconds is None:  # killed again before a new step
                waits.pop()
            waits.append(NextStep(harmed, killed, last_step(harmed)))
            waits[-1].start()
            print(f"kill {kill + 1:3} of {who} by {name}: exit {code}, step {waits[-1].step}", flush=True)
            saves += [event["stall_ms"] for event in events(harmed) if event["event"] == "checkpoint"]
        steps = last_step(harmed) + 20
        damaged += finish(program, harmed, options.ranks, steps).count("is skipped")
        finish(program, calm, options.ranks, steps)
        ours, theirs = ([event["train_loss"] for event in events(folder) if event["event"] == "train"]
                        for folder in (harmed, calm))
        same = ours == theirs and len(ours) == steps
        weights = [(folder / "out" / "final_model.safetensors").read_bytes() for folder in (harmed, calm)]
        for wait in waits:
            wait.join(timeout=5)
        seconds = sorted(wait.seconds for wait in waits if wait.seconds is not None)
        resumes = sum(event["event"] == "resume" for event in events(harmed))
    print(f"\n{options.kills} kills in {steps} steps on {options.ranks} ranks; by signal, target and exit code:")
    for what, count in sorted(codes.items()):
        print(f"  {count:4}  {what}")
    print(f"kill to next new step, of {len(seconds)} starts that lived to one: median {statistics.median(seconds):.2f} s, "
          f"90 % {seconds[int(0.9 * len(seconds))]:.2f} s, worst {seconds[-1]:.2f} s")
    print(f"stall of a checkpoint: median {statistics.median(saves):.2f} ms, worst {max(saves):.2f} ms")
    print(f"resumes kept in metrics.jsonl: {resumes}; checkpoints found damaged: {damaged}; processes left behind: {left}")
    print(f"losses of {steps} steps {'equal' if same else 'DIFFER'}, "
          f"final weights {'equal' if weights[0] == weights[1] else 'DIFFER'}")
    sys.exit(0 if same and weights[0] == weights[1] and damaged == left == 0 else 1)


if __name__ == "__main__":
    main()
