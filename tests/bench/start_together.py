#!/usr/bin/env python3
"""Compares the start-up time of several runs that start at once on one machine with one run's, without setting the
number of threads. Prints the seconds from launch to the first line (when weights are drawn) and to the end of the
first step, for one run alone and for the slowest of N together. If all share one GPU, the first step also waits for
the other runs' kernels.

By default a small model on synthetic tokens, on the GPU where there is one; flags go to build/train_gpt:
  tests/bench/start_together.py --config configs/record.env --data-path synthetic:zipf --tokenizer-path ""
BUILD_DIR (default: build) is the build folder of train_gpt.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")) / "train_gpt"
DEFAULTS = {
    "DATA_PATH": "synthetic:zipf", "TOKENIZER_PATH": "", "ITERATIONS": 1, "WARMUP_STEPS": 0, "VAL_LOSS_EVERY": 0,
    "MAX_WALLCLOCK_SECONDS": 0, "VAL_TOKENS": 512, "VAL_BATCH_SIZE": 512, "TRAIN_BATCH_TOKENS": 512,
    "TRAIN_SEQ_LEN": 512, "EVAL_SEQ_LEN": 0, "GRAD_ACCUM_STEPS": 1, "EVAL_STRIDE": 0, "ARTIFACT": "none",
}
OF_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def start(folder, flags):
    env = {name: value for name, value in os.environ.items() if name not in OF_THREADS}
    env.update({name: str(value) for name, value in DEFAULTS.items() if name not in os.environ})
    folder.mkdir()
    with open(folder / "output", "w") as output:
        return subprocess.Popen([PROGRAM, *flags, "--output-dir", folder], env=env, stdout=output,
                                stderr=subprocess.STDOUT)


def first_step_s(folder):
    events = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return next(event["ms_since_launch"] for event in events if event["event"] == "first_step") / 1000


def together(count, folder, flags):
    """Starts this many runs at once; returns the slowest's seconds to the first line and to the first step."""
    folder.mkdir()
    began = time.monotonic()
    runs = [(start(folder / str(i), flags), folder / str(i)) for i in range(count)]
    silent = [own / "output" for _, own in runs]
    while silent and any(process.poll() is None for process, _ in runs):
        silent = [output for output in silent if output.stat().st_size == 0]
        first_line = time.monotonic() - began
        time.sleep(0.005)
    for process, own in runs:
        if process.wait() != 0:
            sys.exit(f"exit status {process.returncode}:\n{(own / 'output').read_text()}")
    return first_line, max(first_step_s(own) for _, own in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=4, help="number of runs that start together (4)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    options, flags = parser.parse_known_args()
    runs = options.runs
    with tempfile.TemporaryDirectory(prefix="start_together-") as folder:
        folder = pathlib.Path(folder)
        together(1, folder / "warm", flags)  # reads files from the disk
        print(f"seconds from launch, {len(os.sched_getaffinity(0))} CPUs\n")
        print(f"| round | first line: alone | slowest of {runs} | ratio | first step: alone | slowest of {runs} | ratio |")
        print("|---|---|---|---|---|---|---|")
        for number in range(1, options.rounds + 1):
            pairs = zip(together(1, folder / f"alone{number}", flags),
                        together(runs, folder / f"several{number}", flags))
            cells = " | ".join(f"{alone:.2f} | {slowest:.2f} | {slowest / alone:.1f}" for alone, slowest in pairs)
            print(f"| {number} | {cells} |", flush=True)
        log = (folder / f"several{options.rounds}" / "0" / "output").read_text()
        print("\n" + next((line for line in log.splitlines() if line.startswith("threads:")), "no line of threads"))


if __name__ == "__main__":
    main()
