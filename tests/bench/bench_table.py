"""The table that every benchmark of training prints: a row per variant, from all its runs."""
import math
import os
import statistics

# Dense bf16 peak of an H100 or H200; the caller sets it for other GPUs.
PEAK_TFLOPS = float(os.environ.get("PEAK_TFLOPS", 989.5))


class Row:
    """The runs of a variant. `reference`: the Row that ratios and losses are relative to. `counts`: a run of train_gpt
    that counted tokens and FLOPs, which hold for its peer too, or None."""

    def __init__(self, label, runs, reference=None, ranks=1, counts=None):
        self.label, self.runs, self.ranks, self.counts = label, runs, ranks, counts
        self.reference = reference or self
        self.ms = statistics.median(ms for run in runs for ms in run.steps)

    def tokens_per_s(self):
        return self.counts.tokens_per_step / self.ms * 1000 if self.counts else math.nan

    def mfu(self):
        """Returns the fraction of PEAK_TFLOPS per GPU."""
        return self.tokens_per_s() * self.counts.flops_per_token / self.ranks / PEAK_TFLOPS / 1e12 if self.counts else math.nan

    def power(self):
        """Returns the mean watts and MHz in the settled steps; None if the GPU does not report them."""
        known = [run.power.between(run.settled_s, run.settled_s + sum(run.steps) / 1000) for run in self.runs if run.power]
        known = [power for power in known if power]
        return tuple(map(statistics.mean, zip(*known))) if known else None

    def phase(self, name):
        times = [timing[name] for run in self.runs for timing in run.phases]
        return statistics.median(times) if times else None

    def apart(self):
        """Returns the largest relative difference of a step's loss from the reference's first run; 0: equal bits."""
        losses = zip(self.runs[0].losses, self.reference.runs[0].losses)
        return max(abs(a - b) / abs(b) for a, b in losses)


def number(form, value):
    return "-" if value is None or (isinstance(value, float) and math.isnan(value)) else format(value, form)


def peak(row):
    return max((run.memory for run in row.runs if run.memory), default=None)


def cut(row):
    run = row.runs[0]
    return f"{run.micro_batch} of {run.micro_batch * run.parts}" if run.parts else "-"


def of_linear(row):
    return 100 * row.reference.ms * row.reference.ranks / row.ms / row.ranks


COLUMNS = {
    "ms": lambda row: number(".2f", row.ms),
    "least": lambda row: number(".2f", min(ms for run in row.runs for ms in run.steps)),
    "most": lambda row: number(".2f", max(ms for run in row.runs for ms in run.steps)),
    "ratio": lambda row: number(".3f", row.reference.ms / row.ms),
    "of linear": lambda row: number(".2f", of_linear(row)) + "%",
    "tokens/s": lambda row: number(",.0f", row.tokens_per_s()),
    "MFU": lambda row: number(".1f", 100 * row.mfu()) + "%",
    "W": lambda row: number(".0f", row.power() and row.power()[0]),
    "MHz": lambda row: number(".0f", row.power() and row.power()[1]),
    "J": lambda row: number(".0f", row.power() and row.power()[0] * row.ms / 1000),
    "optimizer": lambda row: number(".3f", row.phase("optimizer_ms")),
    "comm": lambda row: number(".2f", row.phase("comm_ms")),
    "data wait": lambda row: number(".2f", row.phase("data_wait_ms")),
    "peak MiB": lambda row: number(",.0f", peak(row)),
    "sequences": cut,
    "first step s": lambda row: " ".join(f"{run.first_s:.1f}" for run in row.runs),
    "losses apart": lambda row: number(".1e", row.apart()),
    "padded": lambda row: "; ".join(row.runs[0].padded) or "-",
}


def aligned(table):
    """Returns the lines of a table of strings: the first column to the left, the others to the right, each as wide as its
    longest cell."""
    widths = [max(map(len, column)) for column in zip(*table)]
    for first, *others in table:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:]))]
        yield "  ".join(cells).rstrip()


def print_table(title, columns, rows):
    """Prints the rows under their columns' names, and below each row the seconds of its scores."""
    if not rows:
        return
    table = [[title, *columns]] + [[row.label, *(COLUMNS[name](row) for name in columns)] for row in rows]
    indent = max(len(line[0]) for line in table)
    print()
    for line, row in zip(aligned(table), [None, *rows]):
        print(line)
        for score, seconds in (row.runs[0].scored_s if row else {}).items():
            if not score.endswith("post_ema"):  # the validation after training
                print(f"{'':{indent}}  {seconds:.2f} s  {score}")


def print_phases(title, runs):
    """Prints the phases of train_gpt's step (TRAINING_TIMING_BREAKDOWN=events) and their parts of it.

    Means over steps, since the medians of phases do not add up to the median of steps.
    """
    timings = [timing for run in runs for timing in run.phases]
    if not timings:
        return
    micro = timings[0]["micro_steps"]
    step = statistics.mean(timing["step_ms"] for timing in timings)
    print(f"\n{title}, ms of a step of {micro} micro-batches: {step:.2f}")
    for name in ("forward", "backward", "grad_clip", "optimizer", "data_wait", "comm"):
        times = micro if name in ("forward", "backward") else 1
        ms = times * statistics.mean(timing[f"{name}_ms"] for timing in timings)
        print(f"  {name:10}{ms:10.2f}{100 * ms / step:7.1f}%")
