#!/usr/bin/env python3
"""Measure the cost of checkpoints, and the time of a stop and a resume.

    checkpoint_cost.py [--program build/train_gpt] [--config configs/record.env] [--steps 60] [--every 10]
                       [--rounds 2] [--ranks 1] [FLAG ...]

Trains on synthetic tokens, alternately without and with a checkpoint every --every steps, and compares the time of all
steps after the first ten and of the steps during which a checkpoint is copied. Then, with DETERMINISTIC=1, it
compares an uninterrupted run with one that gets SIGUSR1 in the middle and is started again: whether the losses are
bitwise equal, and the time from the signal to the exit and from the launch to the next step. FLAGs go to every run.
Exit status 1 if losses differ.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTLED = 10
ALWAYS = ["--data-path", "synthetic:zipf", "--tokenizer-path=", "--val-loss-every", "0", "--val-tokens", "524288",
          "--max-wallclock-seconds", "0", "--eval-stride", "0", "--artifact", "none", "--train-log-every", "1",
          "--run-id", "cost", "--ttt-enabled", "0"]


class Runner:
    def __init__(self, options):
        self.options = options
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        self.launcher = [] if options.ranks == 1 else ["mpirun", "--quiet", *root, "--oversubscribe", "--bind-to", "none",
                                                       "-np", str(options.ranks)]

    def start(self, folder, *flags):
        return subprocess.Popen([*self.launcher, self.options.program.resolve(), "--config", self.options.config, *ALWAYS,
                                 "--output-dir", folder, *map(str, flags), *self.options.flags],
                                cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process, expected=0):
        output, errors = process.communicate()
        if process.returncode != expected:
            sys.exit(f"exit {process.returncode}, expected {expected}:\n{output[-2000:]}\n{errors}")

    def run(self, folder, *flags):
        self.finish(self.start(folder, *flags))
        return events_of(folder)


def events_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def of_kind(events, kind):
    return [event for event in events if event["event"] == kind]


def step_times(events):
    clock = [event["train_time_ms"] for event in of_kind(events, "train")]
    return {step + 2: b - a for step, (a, b) in enumerate(zip(clock, clock[1:]))}


def a_rank_of(pid):
    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "train_gpt":
        return pid
    return a_rank_of(int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]))


def compare_cost(runner, folder):
    options = runner.options
    rows = []
    for number in range(options.rounds):
        plain = step_times(runner.run(folder / f"plain{number}", "--iterations", options.steps))
        events = runner.run(folder / f"saved{number}", "--iterations", options.steps, "--checkpoint-every", options.every)
        saved = step_times(events)
        settled = [step for step in saved if step > SETTLED and step < options.steps]
        mean = [statistics.mean(times[step] for step in settled) for times in (plain, saved)]
        # A step begins when the previous one has ended: the copies overlap with step s + 1.
        under = [saved[step] for step in settled if (step - 1) % options.every == 0]
        others = [saved[step] for step in settled if (step - 1) % options.every != 0]
        checkpoints = of_kind(events, "checkpoint")
        rows.append((mean[0], mean[1], statistics.median(others), statistics.median(under),
                     statistics.median(c["stall_ms"] for c in checkpoints[:-1]),
                     statistics.median(c["write_ms"] for c in checkpoints), checkpoints[0]["bytes"]))
    return rows


def interrupt(runner, folder):
    """Returns whether the losses are equal, and the seconds from the signal to the exit and from each launch to the first step."""
    flags = ["--deterministic", 1, "--iterations", 30]
    calm = runner.run(folder / "calm", *flags)
    with runner.start(folder / "stopped", *flags) as process:
        for line in process.stdout:
            if line.startswith("step:12/"):
                break
        told = time.monotonic()
        os.kill(a_rank_of(process.pid), signal.SIGUSR1)  # not every mpirun forwards it
        runner.finish(process, expected=75)
    stop_s = time.monotonic() - told
    resumed = runner.run(folder / "stopped", *flags)
    losses = [[event["train_loss"] for event in of_kind(events, "train")] for events in (calm, resumed)]
    first = [of_kind(events, "first_step")[-1]["ms_since_launch"] / 1000 for events in (calm, resumed)]
    return losses[0] == losses[1], stop_s, first, of_kind(resumed, "resume")[-1]["step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "train_gpt")
    parser.add_argument("--config", default="configs/record.env")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1)
    options, options.flags = parser.parse_known_args()
    runner = Runner(options)
    with tempfile.TemporaryDirectory(prefix="train_gpt-cost-") as folder:
        folder = pathlib.Path(folder)
        rows = compare_cost(runner, folder)
        same, stop_s, first, step = interrupt(runner, folder)
    print(f"{options.config}, {options.ranks} rank(s), a checkpoint of {rows[0][-1]:,} bytes every {options.every} steps")
    print("mean step without  with    median step  under a copy  stall (host)  write")
    for plain, saved, other, under, stall, write, _ in rows:
        print(f"{plain:14.2f} ms {saved:8.2f} {other:11.2f} {under:13.2f} {stall:10.2f} ms {write:7.0f} ms")
    print(f"SIGUSR1 to the end of the process: {stop_s:.2f} s; launch to the first step {first[0]:.2f} s, "
          f"to the first after a resume {first[1]:.2f} s")
    print(f"30 steps with DETERMINISTIC=1, stopped after step {step} and resumed: losses "
          f"{'are the same bits' if same else 'DIFFER'}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
