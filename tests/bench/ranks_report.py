#!/usr/bin/env python3
"""usage: ranks_report.py FOLDER

Reads the runs that scripts/bench_ranks.sh left in FOLDER (PRESET.RANKS.ROUND.jsonl and .log) and prints a table for
each preset: milliseconds per step, speed-up and its fraction of linear, waits, memory, time to the first step, and
the difference of the losses from one rank's. PRESET.alone-GPU.ROUND are independent runs on every GPU at once: their
slowest step time, divided by the number of ranks, bounds what several ranks can reach.
"""
import collections
import pathlib
import statistics
import sys

from train_run import TrainRun


def step_ms(runs):
    """Returns the settled steps except the first, which earlier tables leave out as well."""
    return [ms for run in runs for ms in run.steps[1:]]


def median_phase(runs, name):
    return statistics.median(timing[name] for run in runs for timing in run.phases)


def worst_difference(runs, reference):
    return max(abs(a - b) / b for run in runs for a, b in zip(run.losses, reference))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    presets = collections.defaultdict(lambda: collections.defaultdict(list))
    alone = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.*.*.jsonl")):
        preset, ranks, _ = path.name.split(".", 2)
        if ranks.startswith("alone-"):
            alone[preset][ranks.removeprefix("alone-")] += step_ms([TrainRun(path)])
        else:
            presets[preset][int(ranks)].append(TrainRun(path))
    for preset, by_ranks in presets.items():
        fewest = min(by_ranks)
        base = statistics.median(step_ms(by_ranks[fewest]))
        print(f"\n{preset}, {sum(len(runs) for runs in by_ranks.values())} runs")
        print("ranks  ms a step  speed-up  of linear  comm_ms  data_wait_ms  peak MiB  first step s  loss against"
              f" {fewest} rank(s)")
        for ranks, runs in sorted(by_ranks.items()):
            step = statistics.median(step_ms(runs))
            speed_up = base / step
            print(f"{ranks:5}  {step:9.2f}  {speed_up:8.3f}  {100 * speed_up * fewest / ranks:8.2f}%"
                  f"  {median_phase(runs, 'comm_ms'):7.2f}"
                  f"  {median_phase(runs, 'data_wait_ms'):12.2f}  {runs[0].memory or '?':>8}"
                  f"  {min(run.first_s for run in runs):12.2f}"
                  f"  {worst_difference(runs, by_ranks[fewest][0].losses):.1e} relative at most")
        if alone[preset]:
            each = {gpu: statistics.median(steps) for gpu, steps in alone[preset].items()}
            print("one rank on every GPU at once: " + ", ".join(f"{step:.2f}" for step in each.values())
                  + f" ms; {len(each)} ranks at the pace of the slowest: {max(each.values()) / len(each):.2f} ms")
    return 0 if presets else 1


if __name__ == "__main__":
    sys.exit(main())
