#!/usr/bin/env python3
"""Kill a rank during training, repeatedly, and time the other rank's message and the exit.

    kill_drill.py [--program build/train_gpt] [--runs 10] [--seed 1]

Two ranks train on synthetic tokens on the CPU under mpirun; in alternation, one of them gets SIGKILL at a random
moment of a random step. Prints for each run the time from the kill to the other rank's message (when it is written;
mpirun shows it at its exit) and to mpirun's exit, then medians and maxima. Exit status 1 if a run did not exit with
the killed rank's status or left a process behind.
"""
import argparse
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SETTINGS = {
    "DATA_PATH": "synthetic:zipf", "TOKENIZER_PATH": "", "VOCAB_SIZE": 512, "NUM_LAYERS": 4, "MODEL_DIM": 64,
    "NUM_HEADS": 4, "NUM_KV_HEADS": 2, "BIGRAM_VOCAB_SIZE": 64, "BIGRAM_DIM": 16, "XSA_LAST_N": 1, "ROPE_DIMS": 8,
    "VE_DIM": 16, "VE_LAYERS": "2,3", "TRAIN_SEQ_LEN": 64, "EVAL_SEQ_LEN": 0, "TRAIN_BATCH_TOKENS": 2048,
    "VAL_BATCH_SIZE": 2048, "VAL_TOKENS": 2048, "ITERATIONS": 1000000, "WARMUP_STEPS": 0, "VAL_LOSS_EVERY": 0,
    "TRAIN_LOG_EVERY": 1, "MAX_WALLCLOCK_SECONDS": 0, "EVAL_STRIDE": 0, "ARTIFACT": "none", "DEVICE": "cpu",
    "RUN_ID": "drill", "OMP_NUM_THREADS": 1,
}
# Writes each rank's pid and standard error to files; the latter's modification time is when the message was written.
WRAPPER = 'echo $$ >pid$OMPI_COMM_WORLD_RANK; exec "$0" 2>err$OMPI_COMM_WORLD_RANK'


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def drill(program, victim, step, delay, folder):
    """Returns the step, the seconds to the message (None: mpirun was quicker) and to mpirun's exit, and the failures."""
    env = os.environ | {name: str(value) for name, value in SETTINGS.items()} | {"OUTPUT_DIR": "out", "TMPDIR": folder}
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["mpirun", "--quiet", *root, "--oversubscribe", "--bind-to", "none", "-np", "2", "bash", "-c", WRAPPER]
    with subprocess.Popen([*command, program], env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        for line in process.stdout:
            if line.startswith(f"step:{step}/") and "train_loss" in line:
                break
        else:
            sys.exit(f"the run ended before step {step}:\n" + pathlib.Path(folder, "err0").read_text())
        time.sleep(delay)
        pids = [int(pathlib.Path(folder, f"pid{rank}").read_text()) for rank in (0, 1)]
        killed = time.time()
        os.kill(pids[victim], signal.SIGKILL)
        for _ in process.stdout:
            pass
        process.wait(timeout=60)
        over = time.time() - killed
    errors = pathlib.Path(folder, f"err{1 - victim}")
    told = errors.stat().st_mtime - killed if "exit=69" in errors.read_text() else None
    wrong = []
    if process.returncode != 128 + signal.SIGKILL:
        wrong.append(f"exit status {process.returncode}")
    time.sleep(0.2)
    wrong += [f"rank {rank} lives on" for rank, pid in enumerate(pids) if lives(pid)]
    return told, over, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build" / "train_gpt"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    chance = random.Random(args.seed)
    tolds, overs, failed = [], [], False
    print("run  rank killed  after step   message      over")
    for run in range(1, args.runs + 1):
        step, delay = chance.randint(1, 30), chance.uniform(0, 0.1)
        with tempfile.TemporaryDirectory(prefix="kill-drill-") as folder:
            told, over, wrong = drill(os.path.abspath(args.program), run % 2, step, delay, folder)
        failed |= bool(wrong)
        if told is not None:
            tolds.append(told)
        overs.append(over)
        message = "none" if told is None else f"{told * 1000:.0f} ms"
        print(f"{run:3}  {run % 2:11}  {step:10}  {message:>8}  {over:6.2f} s  {', '.join(wrong)}".rstrip(), flush=True)
    if tolds:
        print(f"\nmessage: median {statistics.median(tolds) * 1000:.0f} ms, at most {max(tolds) * 1000:.0f} ms"
              f" ({len(tolds)} of {args.runs} runs; in others mpirun ended the rank before it spoke)")
    print(f"over:    median {statistics.median(overs):.2f} s, at most {max(overs):.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
