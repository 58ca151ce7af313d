#!/usr/bin/env python3
"""Time loader_bench and the DataLoader peers alternately on the same shards.

    bench_loader.py [--program build/loader_bench] [--rounds 3] [--workers 1] [--queue 2] SHARD_FOLDER

The programs take turns at going first. The exit status does not depend on the times.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = pathlib.Path(__file__).with_name("loader_peer.py")
GOAL_TIMES = 5  # required speed-up over the DataLoader of sequences
GOAL_NEXT_US = 20
ROWS = {
    "prefetch_tokens_per_s": "train_gpt, read ahead",
    "ordered_tokens_per_s": "train_gpt, read when due",
    "documents_tokens_per_s": "train_gpt, documents",
    "aligned_tokens_per_s": "train_gpt, aligned",
    "sequences_tokens_per_s": "DataLoader of sequences",
    "micro_batches_tokens_per_s": "DataLoader of micro-batches",
}


def run(command):
    """Runs the command and returns the figures in its last line."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} exited {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def read_into_page_cache(folder):
    for path in sorted(pathlib.Path(folder).glob("fineweb_train_*.bin")):
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass


def print_round(number, figures):
    speeds = "  ".join(f"{name.split('_tokens')[0]} {figures[name] / 1e6:.1f}" for name in ROWS)
    print(f"round {number}  {speeds} M tokens/s  next() {figures['next_us_median']:.2f} us", flush=True)


def print_table(medians):
    ours = medians["prefetch_tokens_per_s"]
    print(f"\n{'':28} {'M tokens/s':>10}  speed-up of reading ahead")
    for name, title in ROWS.items():
        print(f"{title:28} {medians[name] / 1e6:10.1f}  {ours / medians[name]:.2f}")
    for order, name in (("", "next()"), ("aligned_", "next(), aligned")):
        next_us, p99 = medians[f"{order}next_us_median"], medians[f"{order}next_us_p99"]
        print(f"{name} with a full queue: median {next_us:.2f} us, 99th percentile {p99:.2f} us")


def print_goals(medians):
    times = medians["prefetch_tokens_per_s"] / medians["sequences_tokens_per_s"]
    next_us = medians["next_us_median"]
    for holds, goal, found in (
        (times >= GOAL_TIMES, f"at least {GOAL_TIMES} times the DataLoader of sequences", f"{times:.1f}"),
        (next_us < GOAL_NEXT_US, f"next() under {GOAL_NEXT_US} us", f"{next_us:.2f} us"),
    ):
        print(f"{'holds' if holds else 'MISSED'}: {goal} ({found})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "loader_bench"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--queue", type=int, default=2)
    parser.add_argument("folder", metavar="SHARD_FOLDER")
    args = parser.parse_args()

    ours = [args.program, args.folder, "--workers", str(args.workers), "--queue", str(args.queue)]
    commands = [ours, [sys.executable, str(PEER), args.folder]]
    read_into_page_cache(args.folder)
    rounds = []
    for number in range(args.rounds):
        figures = {}
        for command in commands if number % 2 == 0 else commands[::-1]:
            figures |= run(command)
        rounds.append(figures)
        print_round(number + 1, figures)

    medians = {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}
    print_table(medians)
    print_goals(medians)


if __name__ == "__main__":
    main()
