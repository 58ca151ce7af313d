#!/usr/bin/env python3
"""usage: loss_report.py REFERENCE RUN ... [--picture FILE.svg]

Compares the training losses of runs, given by their folders, with the first run's over their common steps: the mean of
the last tenth and its difference; the difference of the mean over all steps; the average and the largest difference
of the curves smoothed over 20 steps, after the first tenth; and the difference of each tenth's mean, in per cent.
"""

import json
import math
import pathlib
import sys
from statistics import fmean as mean

import picture

SMOOTHED = 20


def losses(path):
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event["train_loss"] for event in events if event["event"] == "train"]


def tenths(values):
    """Returns the means of ten equal parts."""
    cuts = [len(values) * i // 10 for i in range(11)]
    return [mean(values[begin:end]) for begin, end in zip(cuts, cuts[1:]) if end > begin]


def smooth(values):
    return [sum(values[max(0, i - SMOOTHED + 1) : i + 1]) / min(SMOOTHED, i + 1) for i in range(len(values))]


def draw(curves):
    width, height, left, bottom = 860, 420, 60, 50
    steps = max(len(curve) for _, curve in curves)
    top_loss = max(curve[len(curve) // 100] for _, curve in curves)
    low = min(min(curve) for _, curve in curves)

    def place(step, loss):
        x = left + (width - left - 20) * step / steps
        share = (math.log(min(loss, top_loss)) - math.log(low)) / (math.log(top_loss) - math.log(low))
        return x, height - bottom - (height - bottom - 20) * share

    parts = []
    for mark in range(0, steps + 1, max(1, steps // 5)):
        parts.append(picture.text(place(mark, low)[0], height - bottom + 18, str(mark), anchor="middle"))
    for share in range(5):
        loss = low * (top_loss / low) ** (share / 4)
        y = place(0, loss)[1]
        parts.append(picture.text(left - 8, y + 4, f"{loss:.2f}", anchor="end"))
        parts.append(f'<line class="line" x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for number, (name, curve) in enumerate(curves):
        points = " ".join("{:.1f},{:.1f}".format(*place(step, loss)) for step, loss in enumerate(curve))
        colour = number % picture.COLOURS
        parts.append(f'<polyline class="stroke{colour}" points="{points}" stroke-width="1.2"/>')
        parts.append(picture.text(width - 230, 40 + 18 * number, name, f"fill{colour}"))
    axis = f"step; training loss, mean of {SMOOTHED} steps, logarithmic"
    parts.append(picture.text(width / 2, height - 10, axis, anchor="middle"))
    names = ", ".join(name for name, _ in curves)
    return picture.svg(width, height, f"Training losses over {steps} steps: {names}", parts)


def main(arguments):
    target = None
    if "--picture" in arguments:
        at = arguments.index("--picture")
        target = pathlib.Path(arguments[at + 1])
        del arguments[at : at + 2]
    if len(arguments) < 2:
        sys.exit(__doc__)
    runs = [(pathlib.Path(run).name, losses(pathlib.Path(run) / "metrics.jsonl")) for run in arguments]
    steps = min(len(run) for _, run in runs)
    runs = [(name, run[:steps]) for name, run in runs]
    curves = [(name, smooth(run)) for name, run in runs]
    reference = curves[0][1]
    print(f"{'run':18} {'last tenth':>10} {'against first':>13} {'all steps':>9} {'mean |difference|':>18} {'at most':>9}"
          "  every tenth, percent  (mean and most: of the smoothed curves, relative)")
    means = [tenths(run) for _, run in runs]
    for (name, run), (_, curve), parts in zip(runs, curves, means):
        apart = [abs(a - b) / b for a, b in zip(curve, reference)][len(reference) // 10 :]
        of_first = [100 * (part / first - 1) for part, first in zip(parts, means[0])]
        whole = 100 * (mean(run) / mean(runs[0][1]) - 1)
        print(f"{name:18} {parts[-1]:10.4f} {of_first[-1]:+12.2f}% {whole:+8.2f}% {mean(apart):18.2e} {max(apart):9.2e}  "
              + " ".join(f"{difference:+.2f}" for difference in of_first))
    if target:
        target.write_text(draw(curves))


if __name__ == "__main__":
    main(sys.argv[1:])
