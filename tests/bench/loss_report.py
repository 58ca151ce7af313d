#!/usr/bin/env python3
"""usage: loss_report.py REFERENCE.jsonl RUN.jsonl ... [--picture FILE.svg]

Compares the training losses of runs with those of the first: the mean of the last tenth, and the
difference of the curves smoothed over 20 steps, on average and at most, after the first tenth.
"""

import json
import math
import pathlib
import sys

SMOOTHED = 20
COLOURS = ("#1a1a1a", "#c1440e", "#1f6fb2", "#8a8a8a")


def losses(path):
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event["train_loss"] for event in events if event["event"] == "train"]


def smooth(values):
    return [sum(values[max(0, i - SMOOTHED + 1) : i + 1]) / min(SMOOTHED, i + 1) for i in range(len(values))]


def picture(curves, path):
    width, height, left, bottom = 860, 420, 60, 50
    steps = max(len(curve) for _, curve in curves)
    top_loss = max(curve[len(curve) // 100] for _, curve in curves)
    low = min(min(curve) for _, curve in curves)

    def place(step, loss):
        x = left + (width - left - 20) * step / steps
        share = (math.log(min(loss, top_loss)) - math.log(low)) / (math.log(top_loss) - math.log(low))
        return f"{x:.1f},{height - bottom - (height - bottom - 20) * share:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
             f' font-size="12"><rect width="{width}" height="{height}" fill="white"/>']
    for mark in range(0, steps + 1, max(1, steps // 5)):
        x = place(mark, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{height - bottom + 18}" text-anchor="middle">{mark}</text>')
    for share in range(5):
        loss = low * (top_loss / low) ** (share / 4)
        y = float(place(0, loss).split(",")[1])
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{loss:.2f}</text>'
                     f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>')
    for number, (name, curve) in enumerate(curves):
        points = " ".join(place(step, loss) for step, loss in enumerate(curve))
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>'
                     f'<text x="{width - 230}" y="{40 + 18 * number}" fill="{colour}">{name}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 10}" text-anchor="middle">step; training loss, mean of'
                 f" {SMOOTHED} steps, logarithmic</text></svg>")
    path.write_text("\n".join(parts) + "\n")


def main(arguments):
    target = None
    if "--picture" in arguments:
        at = arguments.index("--picture")
        target = pathlib.Path(arguments[at + 1])
        del arguments[at : at + 2]
    if len(arguments) < 2:
        sys.exit(__doc__)
    runs = [(pathlib.Path(name).stem, losses(pathlib.Path(name))) for name in arguments]
    curves = [(name, smooth(run)) for name, run in runs]
    reference = curves[0][1]
    print(f"{'run':18} {'last tenth':>10} {'mean |difference|':>18} {'at most':>9}   (of the smoothed curve, relative)")
    for (name, curve), (_, run) in zip(curves, runs):
        tail = run[-max(1, len(run) // 10) :]
        apart = [abs(a - b) / b for a, b in zip(curve, reference)][len(reference) // 10 :]
        print(f"{name:18} {sum(tail) / len(tail):10.4f} {sum(apart) / len(apart):18.2e} {max(apart):9.2e}")
    if target:
        picture(curves, target)


if __name__ == "__main__":
    main(sys.argv[1:])
