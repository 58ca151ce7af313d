"""usage: shapes_report.py FOLDER

Compares alternating runs, GROUP.VARIANT.ROUND.jsonl: step times, seconds to the first step, losses and the seconds of
scores. Ratios and loss differences are relative to a group's first variant.
"""
import pathlib
import re
import statistics
import sys

from train_run import SETTLED, TrainRun


class Variant:
    """The runs of one program: step times in ms, seconds to the first step, the optimizer's ms if there is a breakdown,
    the padded sizes, the losses of its first run, and the seconds of scores by name."""

    def __init__(self, log):
        self.padded = re.findall(r"^pad_(.*)$", log, re.M)
        self.times, self.first_s, self.optimizer, self.scores = [], [], [], {}
        self.losses = None

    def add(self, run):
        self.times += run.steps
        self.first_s.append(run.first_s)
        self.optimizer += [timing["optimizer_ms"] for timing in run.phases]
        self.losses = self.losses or run.losses
        for name, seconds in run.scored_s.items():
            self.scores.setdefault(name, []).append(seconds)


def read_groups(folder):
    """Returns the variants by group and name, in the order in which the runs began."""
    groups = {}
    for metrics in sorted(folder.glob("*.jsonl"), key=lambda path: path.with_suffix(".log").stat().st_mtime):
        group, variant, _ = metrics.stem.split(".")
        log = metrics.with_suffix(".log").read_text()
        groups.setdefault(group, {}).setdefault(variant, Variant(log)).add(TrainRun(metrics))
    return groups


def largest_difference(first, losses):
    """Returns the largest difference of the losses over the steps; 0: bitwise equal."""
    return max(abs(a - b) for a, b in zip(first, losses, strict=True))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    head = f"{'':22}{'ms a step':>11}{'ratio':>8}{'optimizer':>11}{'first step':>12}{'losses':>10}"
    print(f"{head}  padded   (medians of the steps after {SETTLED}; losses: largest difference to the first's)")
    for group, variants in read_groups(pathlib.Path(sys.argv[1])).items():
        first = next(iter(variants.values()))
        for name, variant in variants.items():
            ms = statistics.median(variant.times)
            ratio = statistics.median(first.times) / ms
            of_optimizer = f"{statistics.median(variant.optimizer):.3f}" if variant.optimizer else "-"
            print(
                f"{group + ' ' + name:22}{ms:11.2f}{ratio:8.3f}{of_optimizer:>11}"
                f"{statistics.median(variant.first_s):10.2f} s{largest_difference(first.losses, variant.losses):10.1e}"
                f"  {'; '.join(variant.padded)}"
            )
            for score, seconds in variant.scores.items():
                print(f"{'':22}{statistics.median(seconds):9.2f} s  {score}")


if __name__ == "__main__":
    main()
