"""usage: recurrence_report.py FOLDER

Prints the table of scripts/bench_recurrence.sh from FOLDER's PROGRAM.{before,in}.ROUND.{jsonl,log}: step times, memory
and seconds to the first step without and with depth recurrence, and the difference of the programs' losses.
"""
import collections
import pathlib
import statistics
import sys

from bench_report import PeerRun
from train_run import SETTLED, TrainRun

PROGRAMS = {"bf16": "train_gpt", "bf16_light": "train_gpt, ACTIVATION_RECOMPUTE=light", "fp8": "train_gpt, FP8=1",
            "peer": "torch.compile"}
DEPTHS = ("before", "in")


def read_runs(folder):
    """Returns {(program, depth): runs}, without failed runs."""
    runs = collections.defaultdict(list)
    for log in sorted(folder.glob("*.*.*.log")):
        program, depth, _ = log.name.split(".", 2)
        try:
            run = PeerRun(log) if program == "peer" else TrainRun(log.with_suffix(".jsonl"))
            if not run.steps:
                raise ValueError(f"a run of no more than {SETTLED} steps")
            runs[program, depth].append(run)
        except (OSError, ValueError, LookupError):
            print(f"{log.stem}: no result")
    return runs


def median_ms(runs):
    return statistics.median(ms for run in runs for ms in run.steps) if runs else None


def cells(runs):
    if not runs:
        return f"{'-':>10}{'-':>10}{'-':>8}"
    memory = max((run.memory for run in runs if run.memory), default=None)  # none on a CPU
    shown = f"{memory:,.0f}" if memory else "-"
    return f"{median_ms(runs):10.1f}{shown:>10}{statistics.median(run.first_s for run in runs):8.1f}"


def largest_difference(runs, others):
    return max(abs(a - b) / b for a, b in zip(runs[0].losses, others[0].losses))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    runs = read_runs(pathlib.Path(sys.argv[1]))
    columns = f"{'ms a step':>10}{'peak MiB':>10}{'first s':>8}"
    print(f"{'':36}{'before recurrence':>28}{'in recurrence':>28}   (medians of the steps after {SETTLED}; first s: from launch to the first step)")
    print(f"{'':36}{columns}{columns}")
    for program, name in PROGRAMS.items():
        if any((program, depth) in runs for depth in DEPTHS):
            print(f"{name:36}" + "".join(cells(runs[program, depth]) for depth in DEPTHS))
    for program, name in PROGRAMS.items():
        both = [(runs[program, depth], runs["peer", depth]) for depth in DEPTHS]
        both = [pair for pair in both if all(pair)]
        if program != "peer" and both:
            ratios = " and ".join(f"{median_ms(peers) / median_ms(own):.3f}" for own, peers in both)
            worst = max(largest_difference(own, peers) for own, peers in both)
            print(f"{name}: {ratios} times as fast as torch.compile; losses at most {worst:.1e} apart")


if __name__ == "__main__":
    main()
