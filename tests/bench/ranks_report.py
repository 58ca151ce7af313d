#!/usr/bin/env python3
"""usage: ranks_report.py FOLDER

Reads the runs that scripts/bench_ranks.sh left in FOLDER (PRESET.RANKS.ROUND.jsonl and .log) and
prints a table for each preset: milliseconds a step, speed-up and share of linear, waits, memory,
time to the first step, and how far the losses lie from those of one rank. Runs PRESET.alone-GPU.ROUND
are of one rank on every GPU at once: no number of ranks can be faster than its share of the slowest.
"""
import collections
import json
import pathlib
import re
import statistics
import sys

SETTLED = 4  # the first steps choose kernels and fill the allocator


class Run:
    def __init__(self, path):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        train = [event for event in events if event["event"] == "train"]
        clock = [event["train_time_ms"] for event in train]
        self.losses = [event["train_loss"] for event in train]
        # A step is told once the next one is launched, the last one at once: its time is not a step's.
        self.steps = [b - a for a, b in zip(clock, clock[1:-1])][SETTLED:]
        timing = [event for event in events if event["event"] == "timing"][SETTLED:]
        self.comm = [event["comm_ms"] for event in timing]
        self.wait = [event["data_wait_ms"] for event in timing]
        self.first = next(event["ms_since_launch"] for event in events if event["event"] == "first_step")
        memory = re.search(r"peak memory allocated: (\d+) MiB", path.with_suffix(".log").read_text())
        self.memory = memory.group(1) if memory else "?"


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
            alone[preset][ranks.removeprefix("alone-")] += Run(path).steps
        else:
            presets[preset][int(ranks)].append(Run(path))
    for preset, by_ranks in presets.items():
        fewest = min(by_ranks)
        base = statistics.median(sum((run.steps for run in by_ranks[fewest]), []))
        print(f"\n{preset}, {sum(len(runs) for runs in by_ranks.values())} runs")
        print("ranks  ms a step  speed-up  of linear  comm_ms  data_wait_ms  peak MiB  first step s  loss against"
              f" {fewest} rank(s)")
        for ranks, runs in sorted(by_ranks.items()):
            step = statistics.median(sum((run.steps for run in runs), []))
            speed_up = base / step
            print(f"{ranks:5}  {step:9.2f}  {speed_up:8.3f}  {100 * speed_up * fewest / ranks:8.2f}%"
                  f"  {statistics.median(sum((run.comm for run in runs), [])):7.2f}"
                  f"  {statistics.median(sum((run.wait for run in runs), [])):12.2f}  {runs[0].memory:>8}"
                  f"  {min(run.first for run in runs) / 1000:12.2f}"
                  f"  {worst_difference(runs, by_ranks[fewest][0].losses):.1e} relative at most")
        if alone[preset]:
            each = {gpu: statistics.median(steps) for gpu, steps in alone[preset].items()}
            print("one rank on every GPU at once: " + ", ".join(f"{step:.2f}" for step in each.values())
                  + f" ms; {len(each)} ranks at the pace of the slowest: {max(each.values()) / len(each):.2f} ms")
    return 0 if presets else 1


if __name__ == "__main__":
    sys.exit(main())
