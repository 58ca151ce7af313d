"""Times loader_bench and PyTorch's DataLoader in turn on the same shards: scripts/bench.sh loader."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from machine import BUILD

PEER = pathlib.Path(__file__).with_name("loader_peer.py")
SHARDS = pathlib.Path(__file__).with_name("zipf_shards.py")
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


def main(arguments, _):
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh loader", allow_abbrev=False,
        description="Compares the loader's tokens per second with numpy and PyTorch's DataLoader, and measures how long the"
        " loader blocks the consumer when a batch is ready. The loader returns the shards' ids, which are copied to the"
        " device unchanged; the DataLoader returns int64 inputs and targets, as training scripts use it. Reads DATA_PATH,"
        " else 100 million synthetic tokens (200 MB, deleted at the end). The exit status does not depend on the times.")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--workers", type=int, default=1, help="(1)")
    parser.add_argument("--queue", type=int, default=2, help="(2)")
    parser.add_argument("--vocabulary", type=int, default=1024,
                        help="of the shards; above 65536 their ids have 32 bits (1024)")
    parser.add_argument("--tokens", type=int, default=100_000_000, help="synthetic, at least 4 million (100 million)")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-loader-") as work:
        folder = os.environ.get("DATA_PATH")
        if not folder:
            folder = f"{work}/shards"
            subprocess.run([sys.executable, SHARDS, folder, str(args.vocabulary), str(args.tokens), "100000", str(args.tokens // 4)],
                           check=True)
        compare(args, folder)
    return 0


def compare(args, folder):
    """Times both programs, in turn at going first, and prints the table and the goals."""
    ours = [BUILD / "loader_bench", folder, "--workers", str(args.workers), "--queue", str(args.queue),
            "--vocab-size", str(max(args.vocabulary, 1 << 16))]
    commands = [ours, [sys.executable, PEER, folder]]
    read_into_page_cache(folder)
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

