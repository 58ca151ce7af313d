"""usage: shapes_report.py FOLDER

Compares the step times of runs that took turns, GROUP.VARIANT.ROUND.jsonl. The ratio is the time of a
group's first variant to that of each.
"""
import pathlib
import re
import statistics
import sys

from train_run import SETTLED, TrainRun


def read_groups(folder):
    """Step times in ms by group and variant, in the order in which the runs began; what was padded; the
    optimizer's ms of runs with a breakdown of their time."""
    groups = {}
    for metrics in sorted(folder.glob("*.jsonl"), key=lambda path: path.with_suffix(".log").stat().st_mtime):
        group, variant, _ = metrics.stem.split(".")
        log = metrics.with_suffix(".log").read_text()
        times, padded, optimizer = groups.setdefault(group, {}).setdefault(
            variant, ([], re.findall(r"^pad_(.*)$", log, re.M), [])
        )
        run = TrainRun(metrics)
        times += run.steps
        optimizer += [timing["optimizer_ms"] for timing in run.phases]
    return groups


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    head = f"{'':22}{'ms a step':>11}{'ratio':>8}{'optimizer':>11}"
    print(f"{head}  padded   (medians of the steps after {SETTLED})")
    for group, variants in read_groups(pathlib.Path(sys.argv[1])).items():
        first = None
        for variant, (times, padded, optimizer) in variants.items():
            ms = statistics.median(times)
            first = first or ms
            of_optimizer = f"{statistics.median(optimizer):.3f}" if optimizer else "-"
            print(f"{group + ' ' + variant:22}{ms:11.2f}{first / ms:8.3f}{of_optimizer:>11}  {'; '.join(padded)}")


if __name__ == "__main__":
    main()
