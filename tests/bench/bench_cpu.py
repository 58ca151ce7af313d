#!/usr/bin/env python3
"""Time train_gpt and the PyTorch eager peer alternately on the CPU, with the quickstart's model and shards.

    bench_cpu.py [--orders] [--program build/train_gpt] [--rounds 3] [--steps 20] [--warmup 3]

With --orders time only train_gpt, in the token orders below, with attention across documents and within them. The
programs take turns at going first. Both read the same settings and tokens, start from the same SEED, use the same
number of threads and undo their warm-up steps. Exit status 1 if the losses of a step differ by more than 1e-4.
"""
import argparse
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIG = ROOT / "configs" / "quickstart.env"
PEER = pathlib.Path(__file__).with_name("torch_compile_peer.py")
TOLERANCE = 1e-4  # relative; another order of summation changes a loss by 1e-6 within 20 steps


def run(command, env):
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} exited {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


# In the documents order a row is a whole micro-batch, over which attention spans unless limited to documents.
ORDERS = {
    "stream": {"DOCUMENT_ATTENTION": 0},
    "stream, segments": {"DOCUMENT_ATTENTION": 1},
    "documents": {"LOADER_ORDER": "documents", "DOCUMENT_ATTENTION": 0},
    "documents, segments": {"LOADER_ORDER": "documents", "DOCUMENT_ATTENTION": 1},
}


def run_train_gpt(args, env, order={}):
    """Returns the losses and milliseconds of all steps."""
    with tempfile.TemporaryDirectory(prefix="bench-cpu-") as folder:
        # One short validation at the end cannot be turned off; it is not timed.
        settings = {
            "ITERATIONS": args.steps,
            "WARMUP_STEPS": args.warmup,
            "VAL_LOSS_EVERY": 0,
            "VAL_TOKENS": 4096,
            "TOKENIZER_PATH": "",
            "OUTPUT_DIR": folder,
            "RUN_ID": "bench-cpu",
        } | order
        run([args.program, "--config", str(CONFIG)], env | {k: str(v) for k, v in settings.items()})
        lines = pathlib.Path(folder, "metrics.jsonl").read_text().splitlines()
    train = [event for event in map(json.loads, lines) if event["event"] == "train"]
    times = [0.0] + [event["train_time_ms"] for event in train]
    return [event["train_loss"] for event in train], [b - a for a, b in zip(times, times[1:])]


def run_peer(args, env):
    options = ["--eager", "--config", str(CONFIG), "--steps", str(args.steps), "--warmup", str(args.warmup)]
    result = json.loads(run([sys.executable, str(PEER), *options], env).splitlines()[-1])
    return result["losses"], result["step_ms"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--orders", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "build" / "train_gpt"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    args = parser.parse_args()

    env = dict(os.environ, DEVICE="cpu", MAX_WALLCLOCK_SECONDS="0", WARMDOWN_ITERS="0")
    env.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    config = dict(
        line.split("=", 1) for line in CONFIG.read_text().splitlines() if "=" in line and line[0] != "#"
    )
    tokens = int(env.get("TRAIN_BATCH_TOKENS", config["TRAIN_BATCH_TOKENS"]))

    runners = [("train_gpt", run_train_gpt), ("torch eager", run_peer)]
    if args.orders:
        runners = [(name, functools.partial(run_train_gpt, order=order)) for name, order in ORDERS.items()]
    losses, times = {}, {name: [] for name, _ in runners}
    for number in range(args.rounds):
        for name, runner in runners if number % 2 == 0 else runners[::-1]:
            losses[name], step_ms = runner(args, env)
            times[name] += step_ms
            print(f"round {number + 1}  {name:19} {statistics.median(step_ms):9.1f} ms a step", flush=True)

    print(f"\n{args.rounds} x {args.steps} steps, {tokens} tokens, {env['OMP_NUM_THREADS']} threads")
    medians = {name: statistics.median(step_ms) for name, step_ms in times.items()}
    for name, step_ms in times.items():
        low, _, high = statistics.quantiles(step_ms, n=4)
        print(
            f"{name:19} {medians[name]:9.1f} ms a step (quartiles {low:.1f} to {high:.1f})"
            f" {tokens / medians[name] * 1000:9.0f} tokens/s"
        )
    if args.orders:
        for name, median in medians.items():
            print(f"{name:19} {medians['stream'] / median:.3f} of the stream's tokens/s")
        return 0
    print(f"train_gpt is {medians['torch eager'] / medians['train_gpt']:.3f} times as fast")

    ours, peers = losses.values()
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, peers))
    agree = len(ours) == len(peers) and worst <= TOLERANCE
    print(
        f"losses {'agree' if agree else 'DIFFER'}: step 1 {ours[0]:.6f} and {peers[0]:.6f},"
        f" worst relative difference of {len(ours)} steps {worst:.1e}"
    )
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
