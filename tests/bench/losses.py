"""Trains in several number formats, and compares the losses: scripts/bench.sh loss."""
import argparse
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from statistics import fmean as mean

import picture
from machine import BUILD, ROOT, TRAIN_ONLY, has_gpu, inspect_settings, mpirun, preset_file, say, visible_gpus

USAGE = """Checks that fast kernels and half precision train as the reference does: the preset's network trains for 1,000 steps of
98,304 tokens, with the same tokens and initial weights in every run, on all GPUs of this host. Without --dtypes: fp32
and bf16 without own kernels or CUDA graphs, bf16 with them, and bf16 with other initial weights (the noise to compare
with). With --dtypes: these formats, all else equal, compared with the first. fp16:1338 starts from other weights (SEED),
fp8 is bf16 with FP8=1, fp8=mlp,out is bf16 with those parts in FP8. A format named twice shows the difference between
two identical runs. Six minutes on four H200s, twenty on one.

At a preset's learning rates, the losses of two identical runs differ by one or two per cent after some hundred steps,
because rounding errors grow. --lr-divisor 4 divides all learning rates by 4 and turns QAT off, so that smaller
differences become visible. Depth recurrence from the middle on: --preset record_1061 --steps 300 --dtypes fp32 bf16 --
--enable-looping-at 0.5; in fp32, document attention materializes a matrix over a row of a micro-batch, which -- --grad-accum-steps
48 --val-batch-size 98304 makes 36 times smaller.

--data: shards (DATA_PATH, else data/quickstart/shards). If there are none, they are made from the quickstart's text with
its documents shuffled: MORE_TEXT=1 scripts/quickstart.sh --iterations 0 fetches that text. Flags after -- go to each
run: -- --num-layers 6 makes the network smaller, since fp32 takes twenty times as long as bf16. The table, the curves
and a folder for each run, for train_gpt report, go to $OUT (logs/bench/loss)."""
SMOOTHED = 20
REFERENCES = {
    "fp32_reference": ["--compute-dtype", "fp32", "--fused", "0", "--graphs", "0"],
    "bf16_reference": ["--compute-dtype", "bf16", "--fused", "0", "--graphs", "0"],
    "bf16_fused": ["--compute-dtype", "bf16"],
    "bf16_other_seed": ["--compute-dtype", "bf16", "--seed", "1338"],
}


def runs_of(dtypes):
    """Returns {name: flags} for "fp32", "fp8=mlp,out" or "bf16:1338"; a repeated format is NAME_again."""
    found = {}
    for dtype in dtypes:
        form, _, seed = dtype.partition(":")
        name = re.sub("[=,]", "_", dtype.replace(":", "_seed_"))
        while name in found:
            name += "_again"
        fp8 = "0"
        if form.startswith("fp8"):
            fp8, form = form.removeprefix("fp8").removeprefix("=") or "1", "bf16"
        found[name] = ["--compute-dtype", form, "--fp8", fp8, *(["--seed", seed] if seed else [])]
    return found


def divided_rates(preset, divisor):
    """Returns the flags that divide all learning rates, and turn QAT off, which begins below a learning rate."""
    if divisor == 1:
        return []
    rates = {name: value for name, value in inspect_settings(preset).items() if name.endswith("_LR") and name != "TTT_LR"}
    flags = [flag for name, value in rates.items()
             for flag in ("--" + name.lower().replace("_", "-"), f"{float(value) / divisor:g}")]
    return [*flags, "--late-qat-threshold", "0"]


def make_shards(data):
    """Makes shards of the quickstart's text. One document in fifty is for validation, which is not used here."""
    texts = sorted(str(path) for name in ("text", "more_text") for path in (ROOT / "data/quickstart" / name).rglob("*")
                   if path.is_file())
    if not texts:
        sys.exit(f"ERROR bench: no shards in {data}, and no text to make them from; run first:"
                 " MORE_TEXT=1 scripts/quickstart.sh --iterations 0")
    say(f"shards: {len(texts)} documents, shuffled, to {data}")
    subprocess.run([BUILD / "make_shards", "--tokenizer", ROOT / "data/quickstart/tokenizer.model", "--out", data,
                    "--shuffle", "1", "--val-fraction", "0.02", "--replace-invalid", *texts], check=True)


def train(name, own_flags, options, out):
    """Trains into out/NAME; returns that folder, or None."""
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    ranks = 1 if options.device == "cpu" else len(visible_gpus())
    command = [*mpirun(ranks), BUILD / "train_gpt", "--config", options.preset_file, "--output-dir", folder, "--run-id", name,
               "--data-path", options.data, "--device", options.device, *options.rates, *options.flags, *own_flags]
    settings = {**TRAIN_ONLY, "TRAIN_LOG_EVERY": 100, "TRAIN_BATCH_TOKENS": options.batch_tokens, "ITERATIONS": options.steps,
                "WARMDOWN_ITERS": options.steps // 3, "MUON_MOMENTUM_WARMUP_STEPS": options.steps // 4}
    for unset in ("WARMDOWN_FRAC", "VAL_TOKENS"):
        del settings[unset]
    began = time.monotonic()
    log = out / f"{name}.txt"
    with open(log, "w", encoding="utf-8") as file:
        done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                              cwd=ROOT, env={**os.environ, **{key: str(value) for key, value in settings.items()}}, check=False)
    lines = log.read_text(errors="replace").splitlines()
    if done.returncode:
        say(f"FAIL {name}, exit status {done.returncode}")
        print(next((line for line in lines if "ERROR" in line), "\n".join(lines[-5:])))
        return None
    for weights in folder.glob("final_model.*"):
        weights.unlink()
    last = [line for line in lines if re.match(r"step:.* train_loss:", line)]
    say(f"{name}: {time.monotonic() - began:.0f} s, {last[-1] if last else 'no step'}")
    return folder


def losses(folder):
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [event["train_loss"] for event in events if event["event"] == "train"]


def tenths(values):
    """Returns the means of ten equal parts."""
    cuts = [len(values) * i // 10 for i in range(11)]
    return [mean(values[begin:end]) for begin, end in zip(cuts, cuts[1:]) if end > begin]


def smooth(values):
    return [sum(values[max(0, i - SMOOTHED + 1) : i + 1]) / min(SMOOTHED, i + 1) for i in range(len(values))]


def compare(runs):
    """runs: [(name, losses)], the reference first. Prints for each the mean of the last tenth and its difference from the
    reference's; the difference of the mean over all steps; the mean and the largest relative difference of the smoothed
    curves after the first tenth; and the difference of each tenth's mean, in per cent."""
    print(f"{'run':18} {'last tenth':>10} {'against first':>13} {'all steps':>9} {'mean |difference|':>18} {'at most':>9}"
          "  every tenth, percent  (mean and most: of the smoothed curves, relative)")
    reference, first = smooth(runs[0][1]), tenths(runs[0][1])
    for name, run in runs:
        parts = tenths(run)
        apart = [abs(a - b) / b for a, b in zip(smooth(run), reference)][len(reference) // 10 :]
        of_first = [100 * (part / other - 1) for part, other in zip(parts, first)]
        whole = 100 * (mean(run) / mean(runs[0][1]) - 1)
        print(f"{name:18} {parts[-1]:10.4f} {of_first[-1]:+12.2f}% {whole:+8.2f}% {mean(apart):18.2e} {max(apart):9.2e}  "
              + " ".join(f"{difference:+.2f}" for difference in of_first))


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


def main(arguments, flags):
    parser = argparse.ArgumentParser(prog="scripts/bench.sh loss", description=USAGE, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", nargs="+", help="fp32, bf16, fp16, fp8, fp8=PARTS, each with :SEED")
    parser.add_argument("--preset", default="record", help="(record)")
    parser.add_argument("--steps", type=int, default=1000, help="(1000)")
    parser.add_argument("--batch-tokens", type=int, default=98304, help="(98304)")
    parser.add_argument("--lr-divisor", type=float, default=1, help="(1)")
    parser.add_argument("--data", default=os.environ.get("DATA_PATH", ROOT / "data/quickstart/shards"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="(cuda)")
    options = parser.parse_args(arguments)
    options.flags, options.preset_file = flags, preset_file(options.preset)
    if options.device == "cuda" and not has_gpu():
        sys.exit("ERROR bench: no GPU here (nvidia-smi -L finds none); --device cpu trains on the CPU")
    options.rates = divided_rates(options.preset_file, options.lr_divisor)
    out = pathlib.Path(os.environ.get("OUT", ROOT / "logs/bench/loss"))
    out.mkdir(parents=True, exist_ok=True)
    if not list(pathlib.Path(options.data).glob("fineweb_train_*.bin")):
        make_shards(options.data)
    wanted = runs_of(options.dtypes) if options.dtypes else REFERENCES
    folders = [train(name, own_flags, options, out) for name, own_flags in wanted.items()]
    runs = [(folder.name, losses(folder)) for folder in folders if folder]
    if not runs:
        sys.exit("ERROR bench: no run to report")
    steps = min(len(run) for _, run in runs)
    runs = [(name, run[:steps]) for name, run in runs]
    compare(runs)
    (out / "losses.svg").write_text(draw([(name, smooth(run)) for name, run in runs]))
    return 0 if all(folders) else 1
