#!/usr/bin/env python3
"""Reports on the measurements of scripts/ladder.sh.

    ladder_report.py row RUN.jsonl          prints one run in one line; reads its log RUN.log
    ladder_report.py pieces TOKENIZER       prints the number of pieces of a SentencePiece model
    ladder_report.py table FOLDER MACHINE   prints the rungs of FOLDER/runs/rungs.txt as a table and
                                            writes FOLDER/ladder.{csv,json,md,svg}
"""
import csv
import dataclasses
import json
import pathlib
import statistics
import sys

import picture
from bench_table import aligned
from train_run import TrainRun

# Source of the published figures; see docs/ladder.md.
PUBLISHED = "A100 40 GB, published"


@dataclasses.dataclass
class Rung:
    """A line of rungs.txt and the measurements of its run; None if the run did not finish."""

    name: str
    what: str
    beside: bool  # measured in addition to the ladder's rungs
    settings: str
    published_tokens_per_s: int | None
    published_sequences: int | None
    tokens_per_s: float | None = None
    peak_mib: float | None = None
    sequences: int | None = None  # largest micro-batch within the memory limit, if there is one
    loss: float | None = None  # validation loss after the same training tokens
    first_step_s: float | None = None


def measure(metrics):
    """Returns the measured fields of a Rung."""
    try:
        run = TrainRun(metrics)
        return {
            "tokens_per_s": 1000 * run.tokens_per_step / statistics.median(run.steps),
            "peak_mib": run.peak_bytes[-1] / 2**20,
            "sequences": run.micro_batch,
            "loss": run.val_losses[-1],
            "first_step_s": run.first_s,
        }
    except (OSError, ValueError, LookupError):
        return {}


def read_rungs(folder):
    rungs = []
    for line in (folder / "rungs.txt").read_text().splitlines():
        kind, name, what, settings, rate, sequences = line.split("|")
        published = [int(number) if number else None for number in (rate, sequences)]
        rungs.append(Rung(name, what, kind == "=", settings, *published, **measure(folder / f"{name}.jsonl")))
    return rungs


def shown(number, form):
    return "" if number is None else format(number, form)


COLUMNS = {
    "rung": lambda rung, _: rung.what + (" (beside)" if rung.beside else ""),
    "tokens/s": lambda rung, _: shown(rung.tokens_per_s, ",.0f") or "failed",
    "times": lambda rung, first: shown(rung.tokens_per_s and first and rung.tokens_per_s / first, ".2f"),
    "peak MiB": lambda rung, _: shown(rung.peak_mib, ",.0f"),
    "sequences": lambda rung, _: shown(rung.sequences, "d"),
    "loss": lambda rung, _: shown(rung.loss, ".4f"),
    "first step s": lambda rung, _: shown(rung.first_step_s, ".1f"),
    "published": lambda rung, _: shown(rung.published_tokens_per_s, ",d"),
    "its sequences": lambda rung, _: shown(rung.published_sequences, "d"),
}


def cells(rungs):
    """Returns the table's rows, the header first."""
    first = rungs[0].tokens_per_s
    return [list(COLUMNS)] + [[column(rung, first) for column in COLUMNS.values()] for rung in rungs]


def markdown(rows, machine):
    rules = ["---"] + ["---:"] * (len(COLUMNS) - 1)
    lines = ["| " + " | ".join(row) + " |" for row in [rows[0], rules, *rows[1:]]]
    return "\n".join([machine, "", *lines]) + "\n"


def write_data(rungs, machine, folder):
    records = [dataclasses.asdict(rung) for rung in rungs]
    (folder / "ladder.json").write_text(json.dumps({"machine": machine, "rungs": records}, indent=1) + "\n")
    with open(folder / "ladder.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def draw(rungs, machine):
    """Draws one bar per rung, and a thin one below it if there is a published figure."""
    left, right, top, row = 230, 800, 56, 34
    rates = [rate for rung in rungs for rate in (rung.tokens_per_s, rung.published_tokens_per_s) if rate]
    scale = (right - left) / max(rates, default=1)
    parts = [picture.text(12, 22, f"Tokens a second, {machine}"), picture.text(12, 40, PUBLISHED, "fill3")]

    def bar(y, height, rate, colour):
        length = rate * scale
        parts.append(f'<rect class="fill{colour}" x="{left}" y="{y}" width="{length:.1f}" height="{height}"/>')
        parts.append(picture.text(left + length + 6, y + height / 2 + 4, f"{rate:,.0f}", "faint"))

    for number, rung in enumerate(rungs):
        y = top + row * number
        parts.append(picture.text(left - 10, y + 13, COLUMNS["rung"](rung, None), anchor="end"))
        if rung.tokens_per_s:
            bar(y, 15, rung.tokens_per_s, 1 if rung.beside else 2)
        if rung.published_tokens_per_s:
            bar(y + 17, 6, rung.published_tokens_per_s, 3)
    return picture.svg(right + 90, top + row * len(rungs) + 6, f"Tokens a second of each rung, {machine}", parts)


def table(folder, machine):
    folder = pathlib.Path(folder)
    rungs = read_rungs(folder / "runs")
    rows = cells(rungs)
    write_data(rungs, machine, folder)
    (folder / "ladder.md").write_text(markdown(rows, machine))
    (folder / "ladder.svg").write_text(draw(rungs, machine))
    return "\n".join([machine, *aligned(rows)])


def row(metrics):
    metrics = pathlib.Path(metrics)
    found = measure(metrics)
    if not found:
        return f"{metrics.stem}: no result"
    return f"{metrics.stem}: {found['tokens_per_s']:,.0f} tokens/s, loss {found['loss']:.4f}"


def pieces(tokenizer):
    """Counts the entries of field 1 of the model, a protocol buffer of length-delimited fields."""
    data = pathlib.Path(tokenizer).read_bytes()
    at = count = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        field = varint()
        count += field == (1 << 3 | 2)
        length = varint()
        at += length
    return str(count)


def main():
    commands = {"row": (row, 1), "pieces": (pieces, 1), "table": (table, 2)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) != count + 2:
        sys.exit(__doc__)
    print(command(*sys.argv[2:]))


if __name__ == "__main__":
    main()
