#!/usr/bin/env python3
"""usage: compare_record.py NAME FOLDER

Compares the run in FOLDER with the logs of data/records/NAME.json, for scripts/reproduce_record.sh: validation losses,
milliseconds per step by stage, seconds and peak memory. The last line is the verdict. Exit status: 0 if the final loss
is at most LIMIT standard deviations above the logs' mean, 1 if it is higher or missing, 2 if the run is another one.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
LIMIT = 3  # standard deviations

# Settings that leave the losses as they are, up to the seed and to rounding. Data and micro-batches are judged by the
# run's own counts.
FREE = re.compile(
    r"DATA_PATH|SHARD_PREFIX|TOKENIZER_PATH|BYTE_COUNTS|GRAD_ACCUM_STEPS|PASS_TOKENS|RUN_ID|OUTPUT_DIR|SEED|DEVICE|COMPUTE_DTYPE|FP8|"
    r"DETERMINISTIC|FUSED|HOPPER|GRAPHS|ATTENTION|PAD_VOCAB|ACTIVATION_RECOMPUTE|MEMORY_LIMIT_GB|WARMUP_STEPS|RECORD_QUIRKS|"
    r"VAL_LOSS_EVERY|VAL_BATCH_SIZE|VAL_BYTECOUNT_DEVICE|(TRAIN|VAL)_(PREFETCH\w*|COPY_STREAM|(PROGRESS_)?LOG_EVERY)|"
    r"TRAINING_TIMING_\w+|PROFILE\w*|CHECKPOINT_EVERY|KEEP|RESUME|COMM_TIMEOUT_S|ON_NONFINITE|NONFINITE_LIMIT|TENSORBOARD|"
    r"ARTIFACT|VALIDATION_MASK_VOCABULARY")


class Run:
    """The events of metrics.jsonl and the settings of config.json in a run's folder."""

    def __init__(self, folder):
        events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        self.config = json.loads((folder / "config.json").read_text())
        self.val_loss = {event["step"]: event["val_loss"] for event in events if event["event"] == "val"}
        self.train_ms = {0: 0.0} | {event["step"]: event["train_time_ms"] for event in events if event["event"] == "train"}
        # The newest of each: a resumed run may have other ranks.
        self.newest = {event["event"]: event for event in events}

    def field(self, event, name):
        return self.newest.get(event, {}).get(name)

    def step_ms(self, first, last):
        """→ mean milliseconds of the steps behind `first`, up to `last` or to the run's own last one; None without."""
        last = max(step for step in self.train_ms if step <= last)
        if last <= first or first not in self.train_ms:
            return None
        return (self.train_ms[last] - self.train_ms[first]) / (last - first)

    def machine(self):
        formats = [str(self.field("start", name)) for name in ("compute_dtype", "fp8") if self.field("start", name)]
        return f"{self.field('start', 'world_size')} x {self.field('start', 'device')}, {', FP8 '.join(formats)}"


def same(value, text):
    """Whether a value of config.json is the one that a preset's text stands for."""
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, list):
        return ",".join(map(str, value)) == text
    try:
        return float(value) == float(text)
    except ValueError:
        return str(value) == text


def preset_settings(name, known):
    """Returns {name: text} of all settings of a preset; those of this environment, by the names in `known`, do not count."""
    plain = {key: value for key, value in os.environ.items() if key not in known}
    printed = subprocess.run([BUILD / "train_gpt", "inspect", "--settings", ROOT / "configs" / f"{name}.env"],
                             capture_output=True, text=True, env=plain, check=True).stdout
    return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


def differences(run, name, record):
    """→ texts of what makes the run another one than the record: its settings, data and rows."""
    settings = run.config["settings"]
    chosen = [setting for setting, origin in run.config["origins"].items()
              if origin not in ("default", "recipe") and not FREE.fullmatch(setting)]
    expected = preset_settings(name, settings) if chosen else {}
    found = [f"{setting}={settings[setting]} (the record: {expected.get(setting)})" for setting in chosen
             if not same(settings[setting], expected.get(setting))]
    dataset, tokens = run.field("start", "dataset") or "", run.field("data", "train_tokens") or 0
    if dataset.startswith("synthetic:") or tokens < record["shards"]["tokens"]:
        found.append(f"{tokens:,.0f} training tokens of {dataset} (the record: {record['shards']['tokens']:,} of FineWeb)")
    rows = run.field("start", "micro_batches")
    if rows != record["micro_batches"]:
        found.append(f"{rows} micro-batches per step (the record: {record['micro_batches']})")
    return found


def distance(loss, entry):
    """→ standard deviations of a loss above the logs' mean; None where the logs do not differ."""
    if loss is None or entry is None or entry["deviation"] is None:
        return None
    return (loss - entry["mean"]) / entry["deviation"]


def shown(number, form):
    return "-" if number is None else format(number, form)


def print_losses(run, logs):
    print("  step   this run  logs' mean  deviation  distance")
    for step in sorted(run.val_loss.keys() | logs.keys()):
        loss, entry = run.val_loss.get(step), logs.get(step)
        mean, deviation = (entry["mean"], entry["deviation"]) if entry else (None, None)
        print(f"{step:6} {shown(loss, '.4f'):>10} {shown(mean, '.4f'):>11} {shown(deviation, '.4f'):>10}"
              f" {shown(distance(loss, entry), '+.1f'):>9}")


def print_times(run, record):
    def row(label, own, theirs, form):
        print(f"{label:38} {shown(own, form):>9} {format(theirs, form):>9}")

    print(f"\n{'':38} {'this run':>9} {'logs':>9}")
    first = 0
    for stage in record["stages"]:
        row(f"ms per step, windows of {stage['windows']} blocks", run.step_ms(first, stage["last_step"]), stage["step_ms"], ".2f")
        first = stage["last_step"]
    row(f"seconds for {first} steps", run.train_ms[first] / 1000 if first in run.train_ms else None, record["train_s"], ".2f")
    peak = run.field("memory", "peak_allocated_bytes")
    row("peak memory of a GPU, MiB", None if peak is None else peak / 2**20, record["peak_mib"], ",.0f")
    print(f"this run: {run.machine()}; logs: {record['machine']}; times compare only on equal machines")


def verdict(run, logs):
    """→ exit status, and the verdict of a run with the record's settings."""
    last = max(logs)
    if last not in run.val_loss:
        done = max(run.train_ms)
        return 1, f"UNFINISHED: step {done} of {last} is done; start the same command again to go on"
    loss = run.val_loss[last]
    if loss is None:
        return 1, "OUTSIDE the logs: the final loss is not finite; log.txt shows since which step"
    away = distance(loss, logs[last])
    said = f"final loss {loss:.4f}, {away:+.1f} deviations"
    if away < -LIMIT:
        return 0, f"BELOW the logs: {said}; see whether the validation shard is FineWeb's"
    if away <= LIMIT:
        return 0, f"within the logs: {said}"
    # The first step from which on all losses are too high.
    high = [(distance(run.val_loss.get(step), logs[step]) or 0) > LIMIT for step in sorted(logs)]
    since = sorted(logs)[len(high) - (high[::-1] + [False]).index(False)]
    return 1, (f"OUTSIDE the logs: {said}, and above them by more than {LIMIT} from step {since} on; see whether the shards are "
               "FineWeb's, and whether another --seed (with another RUN_ID) is outside too")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    record = json.loads((ROOT / "data" / "records" / f"{name}.json").read_text())
    try:
        run = Run(folder)
    except (OSError, ValueError, LookupError) as error:
        print(f"no run in {folder}: {error}", file=sys.stderr)
        return 1
    logs = {entry["step"]: entry for entry in record["val_loss"]}
    print(f"{record['title']}: {record['source']}")
    print_losses(run, logs)
    print_times(run, record)
    if other := differences(run, name, record):
        print(f"not comparable with the logs: {'; '.join(other)}")
        return 2
    status, text = verdict(run, logs)
    print(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
