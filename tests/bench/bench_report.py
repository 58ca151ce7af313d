#!/usr/bin/env python3
"""Reports on the files that scripts/bench.sh left in FOLDER: RECIPE.{train_gpt,train_gpt_fp8}.ROUND.{jsonl,log,power},
RECIPE.peer.ROUND.{log,power} and the settings, RECIPE.env.

    bench_report.py speed FOLDER    train_gpt compared with torch.compile, and the GPU's power per step
    bench_report.py phases FOLDER   the phases of train_gpt's step, by its events
    bench_report.py picture FOLDER [RECIPE PROGRAM MS ...]  writes FOLDER/../speed.svg: the time per step and to
                                    the first step; with step times of programs measured elsewhere
"""
import collections
import json
import math
import os
import pathlib
import statistics
import sys

import picture
from peer.settings import read_settings
from power_log import PowerLog
from train_run import SETTLED, TrainRun, settled_s

# Dense bf16 peak of an H100 or H200; the caller sets it for other GPUs.
PEAK_TFLOPS = float(os.environ.get("PEAK_TFLOPS", 989.5))
PROGRAMS = {"train_gpt": "train_gpt", "train_gpt_fp8": "train_gpt FP8=1", "peer": "torch.compile"}


class PeerRun:
    """The last line of torch_compile_peer.py's log, with the fields of a TrainRun."""

    def __init__(self, log):
        result = json.loads(log.read_text().splitlines()[-1])
        self.losses, self.steps = result["losses"], result["step_ms"][SETTLED:]
        self.memory, self.first_s = result["peak_memory_mib"], result["first_step_s"]
        self.settled_s = settled_s(self.first_s, result["step_ms"])


def read_runs(folder):
    """Returns {recipe: {program: runs}}, without failed runs."""
    runs = collections.defaultdict(lambda: collections.defaultdict(list))
    for path in sorted(pathlib.Path(folder).glob("*.*.*.log")):
        recipe, program, _ = path.name.split(".", 2)
        of_program = runs[recipe][program]
        try:
            run = PeerRun(path) if program == "peer" else TrainRun(path.with_suffix(".jsonl"))
            if run.memory is None:
                raise ValueError("a run that did not reach its end")
            run.power = PowerLog(path.with_suffix(".power"))
            of_program.append(run)
        except (OSError, ValueError, LookupError):
            print(f"{path.stem}: no result")
    return runs


def flops_per_token(programs):
    """Returns train_gpt's count for the recipe, which holds for all programs; NaN if train_gpt did not run."""
    return next((run.flops_per_token for runs in programs.values() for run in runs if isinstance(run, TrainRun)), math.nan)


def all_steps(runs):
    return [ms for run in runs for ms in run.steps]


def mean_power(runs):
    """Returns the mean watts and MHz in the settled steps; None if the GPU does not report them."""
    known = [run.power.between(run.settled_s, run.settled_s + sum(run.steps) / 1000) for run in runs]
    known = [power for power in known if power]
    return tuple(map(statistics.mean, zip(*known))) if known else None


def print_speed(recipe, programs, tokens):
    print(f"\n{recipe}, {tokens:,} tokens a step, median of the steps after {SETTLED}")
    print(
        f"{'':15}{'ms a step':>10}{'least':>8}{'most':>8}{'tokens/s':>11}{'MFU':>7}{'W':>6}{'MHz':>7}"
        f"{'J a step':>9}{'peak MiB':>10}  first step s, by round"
    )
    medians = {}
    for program, name in PROGRAMS.items():
        steps = all_steps(programs[program])
        if not steps:
            continue
        medians[program] = statistics.median(steps)
        rate = tokens / medians[program] * 1000
        firsts = ", ".join(f"{run.first_s:.1f}" for run in programs[program])
        power = mean_power(programs[program])
        drawn = "{:6.0f}{:7.0f}{:9.0f}".format(*power, power[0] * medians[program] / 1000) if power else " " * 22
        print(
            f"{name:15}{medians[program]:10.2f}{min(steps):8.2f}{max(steps):8.2f}{rate:11,.0f}"
            f"{rate * flops_per_token(programs) / PEAK_TFLOPS / 1e10:6.1f}%{drawn}"
            f"{max(run.memory for run in programs[program]):10,.0f}  {firsts}"
        )
    for program in [program for program in medians if program != "peer" and "peer" in medians]:
        ours, peers = programs[program][0].losses, programs["peer"][0].losses
        worst = max(abs(a - b) / b for a, b in zip(ours, peers))
        print(
            f"{PROGRAMS[program]} is {medians['peer'] / medians[program]:.3f} times as fast; loss {ours[0]:.4f} ->"
            f" {ours[-1]:.4f} and {peers[0]:.4f} -> {peers[-1]:.4f}, at most {worst:.1e} apart"
        )


def print_phases(recipe, programs):
    timings = [timing for run in programs["train_gpt"] for timing in run.phases]
    if not timings:
        return
    micro = timings[0]["micro_steps"]
    names = {"forward_ms": micro, "backward_ms": micro, "grad_clip_ms": 1, "optimizer_ms": 1}
    names |= {"data_wait_ms": 1, "comm_ms": 1}
    step = statistics.median(timing["step_ms"] for timing in timings)
    parts = {
        name.removesuffix("_ms"): times * statistics.median(timing[name] for timing in timings)
        for name, times in names.items()
    }
    print(f"\n{recipe}, ms of a step of {micro} micro-batches: {step:.2f}")
    for name, ms in parts.items():
        print(f"  {name:10}{ms:10.2f}{100 * ms / step:7.1f}%")


def draw(rows):
    """rows: (recipe, program, ms a step, seconds to the first step or None), by recipe."""
    left, bar, width = 290, 290, 930
    columns = {"milliseconds a step": 2, "seconds from launch to the first step": 3}
    recipes = list(dict.fromkeys(row[0] for row in rows))
    parts = []
    for number, (title, field) in enumerate(columns.items()):
        x = left + number * (bar + 60)
        parts.append(picture.text(x, 24, title, "faint"))
        most = max(row[field] for row in rows if row[field] is not None)
        for line, row in enumerate(rows):
            y = 40 + 24 * line + 10 * recipes.index(row[0])
            if number == 0:
                parts.append(picture.text(left - 10, y + 13, f"{row[0]}, {row[1]}", anchor="end"))
            if row[field] is None:
                parts.append(picture.text(x, y + 13, "not measured", "faint"))
                continue
            shown = 0.85 * bar * row[field] / most
            colour = 2 if row[1].startswith("train_gpt") else 3
            parts.append(f'<rect class="fill{colour}" x="{x}" y="{y}" width="{shown:.1f}" height="17"/>')
            parts.append(picture.text(x + shown + 6, y + 13, f"{row[field]:,.{1 if field == 3 else 0}f}"))
    height = 50 + 24 * len(rows) + 10 * len(recipes)
    programs = " and ".join(dict.fromkeys(row[1] for row in rows))
    return picture.svg(width, height, f"{programs}: time of a step, and until the first one", parts)


def draw_runs(folder, others):
    rows = []
    for recipe, programs in read_runs(folder).items():
        for program, name in PROGRAMS.items():
            if steps := all_steps(programs[program]):
                first = max(run.first_s for run in programs[program])
                rows.append((recipe, name, statistics.median(steps), first))
        rows += [(recipe, name, float(ms), None) for other, name, ms in others if other == recipe]
    (pathlib.Path(folder).parent / "speed.svg").write_text(draw(rows))


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "picture":
        draw_runs(sys.argv[2], list(zip(*[iter(sys.argv[3:])] * 3, strict=True)))
        return
    if len(sys.argv) != 3 or sys.argv[1] not in ("speed", "phases"):
        sys.exit(__doc__)
    for recipe, programs in read_runs(sys.argv[2]).items():
        if sys.argv[1] == "speed":
            settings = read_settings(pathlib.Path(sys.argv[2]) / f"{recipe}.env")
            print_speed(recipe, programs, settings.TRAIN_BATCH_TOKENS)
        else:
            print_phases(recipe, programs)


if __name__ == "__main__":
    main()
