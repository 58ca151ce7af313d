#!/usr/bin/env python3
"""Reports on metrics.jsonl of a run, for scripts/dev/gpu_check.sh.

    run_report.py row METRICS LOG           losses, speed and memory of one run, in one line
    run_report.py compare METRICS METRICS   losses of two runs step by step, then one summary line
    run_report.py peer LOG                  losses, speed and memory of torch_compile_peer.py
"""
import json
import pathlib
import re
import statistics
import sys

SETTLED = 10  # untimed steps, in which kernels are chosen and memory is allocated


def read_metrics(path):
    """Returns the train events in order, and milliseconds from launch to the first step."""
    path = pathlib.Path(path)
    lines = path.read_text().splitlines() if path.exists() else []
    events = [json.loads(line) for line in lines]
    train = [event for event in events if event["event"] == "train"]
    first = [event["ms_since_launch"] for event in events if event["event"] == "first_step"]
    return train, first[0] if first else None


def step_ms(train):
    times = [event["train_time_ms"] for event in train]
    return [b - a for a, b in zip(times, times[1:])]


def row(metrics, log):
    train, first_ms = read_metrics(metrics)
    if not train:
        return "no step was made"
    first, last = train[0], train[-1]
    parts = [f"loss {first['train_loss']:.4f} -> {last['train_loss']:.4f} in {last['step']} steps"]
    settled = step_ms(train)[SETTLED - 1 :]
    if settled:
        low, high = min(settled), max(settled)
        parts.append(f"{statistics.median(settled):.1f} ms a step ({low:.1f} to {high:.1f})")
    log_text = pathlib.Path(log).read_text()
    memory = re.search(r"peak memory allocated: \d+ MiB reserved: \d+ MiB", log_text)
    parts.append(memory.group() if memory else "peak memory unknown")
    if first_ms is not None:
        parts.append(f"first step {first_ms / 1000:.2f} s after launch")
    return ", ".join(parts)


def compare(path_a, path_b):
    name_a, name_b = (pathlib.Path(path).stem for path in (path_a, path_b))
    print(f"{'step':>4} {name_a:>16} {name_b:>16} {'difference':>11}")
    worst = 0.0
    pairs = list(zip(read_metrics(path_a)[0], read_metrics(path_b)[0]))
    for a, b in pairs:
        difference = b["train_loss"] - a["train_loss"]
        worst = max(worst, abs(difference))
        print(f"{a['step']:4} {a['train_loss']:16.6f} {b['train_loss']:16.6f} {difference:+11.6f}")
    if not pairs:
        return "no steps to compare"
    return f"largest difference of {len(pairs)} losses {worst:.5f}, at the last step {difference:+.5f}"


def peer(log):
    lines = pathlib.Path(log).read_text().splitlines()
    if not lines or not lines[-1].startswith("{"):
        return "no result"
    result = json.loads(lines[-1])
    losses = result["losses"]
    return (
        f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps,"
        f" {result['ms_per_step_median']:.1f} ms a step,"
        f" peak memory allocated: {result['peak_memory_mib']:.0f} MiB"
    )


def main():
    commands = {"row": (row, 2), "compare": (compare, 2), "peer": (peer, 1)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) != count + 2:
        sys.exit(__doc__)
    print(command(*sys.argv[2:]))


if __name__ == "__main__":
    main()
