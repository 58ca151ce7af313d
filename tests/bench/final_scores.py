"""Times what follows training, on one GPU: scripts/bench.sh gptq and ttt."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import time

import kernel_table
from machine import BUILD, ROOT, Machine, preset_file, say

COMPRESSORS = ("lzma", "brotli", "pergroup")
# A tiny model, without a GPU.
TINY_LAYERS = {"NUM_LAYERS": 6, "XSA_LAST_N": 6, "LOOP_START": 2, "LOOP_END": 3, "PARALLEL_START_LAYER": 4}
TINY_SCORES = TINY_LAYERS | {
    "TTT_EVAL_SEQ_LEN": 512, "TTT_CHUNK_SIZE": 256, "TTT_BATCH_SIZE": 2, "TTT_LORA_RANK": 4, "GLOBAL_TTT_CHUNK_TOKENS": 256,
    "GLOBAL_TTT_BATCH_SEQS": 2,
}


def open_machine(name, flags):
    machine = Machine(os.environ.get("OUT", ROOT / "logs" / "bench" / name), "gpu", flags)
    if machine.tiny:
        say("no GPU: a tiny model on the CPU, whose times mean nothing")
    return machine


def found(pattern, text, scale=1):
    match = re.search(pattern, text)
    return f"{float(match[1]) * scale:.2f}" if match else "-"


def gptq(arguments, flags):
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh gptq", allow_abbrev=False,
        description="ARTIFACT=gptq of a model trained for two steps on synthetic documents: for each compressor and round the"
        " seconds for the Hessians of GPTQ_CALIBRATION_BATCHES, for GPTQ with LQER, for packing and for reading, and the"
        " bytes. The first round includes the start of CUDA's libraries. Then build/quantize_bench, per kind of matrix.")
    parser.add_argument("--preset", default="record_1061", help="(record_1061)")
    parser.add_argument("--rounds", type=int, default=2, help="(2)")
    parser.add_argument("--compressors", nargs="+", choices=COMPRESSORS,
                        default=[name for name in COMPRESSORS if name != "pergroup" or shutil.which("lrzip")],
                        help="(all; pergroup if lrzip is installed)")
    options = parser.parse_args(arguments)
    preset = preset_file(options.preset)
    machine = open_machine("gptq", flags)
    # GPTQ needs a hundred rows of each matrix.
    settings = {"DATA_PATH": "synthetic:documents", **(TINY_LAYERS | {"MODEL_DIM": 144} if machine.tiny else {})}
    model = pathlib.Path(machine.work.name, "model")
    environment = machine.settings({**settings, "ITERATIONS": 2})
    if not machine.start("train.gptq.0", [BUILD / "train_gpt", "--config", preset, "--output-dir", model, "--run-id", "model",
                                          *flags], environment, 300):
        return 1
    if (BUILD / "quantize_bench").exists():
        subprocess.run([BUILD / "quantize_bench"], check=False)
    del environment["ARTIFACT"]  # quantize chooses it
    print("\ncompressor  round  Hessians s  GPTQ+LQER s  packing s  reading s      bytes")
    for number in range(1, options.rounds + 1):
        for compressor in options.compressors:
            name, artifact = f"{compressor}.gptq.{number}", model / f"{compressor}.ptz"
            done = machine.start(name, [BUILD / "train_gpt", "quantize", "--init-from", model, "--out", artifact, "--calibrate",
                                        environment["DATA_PATH"], "--compressor", compressor], environment, 600)
            began = time.monotonic()
            if not done or subprocess.run([BUILD / "train_gpt", "inspect", artifact], stdout=subprocess.DEVNULL,
                                          check=False).returncode:
                machine.failed += 1
                continue
            read_s, log = time.monotonic() - began, (machine.out / f"{name}.log").read_text()
            hessians, quantized = found(r"Hessians in ([\d.]+)", log), found(r"quantize:(\d+)", log, 0.001)
            packed = found(r"compress:(\d+)", log, 0.001)
            print(f"{compressor:10}  {number:5}  {hessians:>10}  {quantized:>11}  {packed:>9}  {read_s:9.2f}"
                  f"  {artifact.stat().st_size:9}", flush=True)
    return 1 if machine.failed else 0


def ttt(arguments, flags):
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh ttt", allow_abbrev=False,
        description="Phased test-time training of configs/record_1061.env with random weights: scores every Nth batch of"
        " synthetic documents, times base training separately (build/phased_ttt_bench, which is built with the tests), and"
        " lists the kernels of three of these batches by time.")
    parser.add_argument("--rounds", type=int, default=1, help="(1)")
    parser.add_argument("--documents", type=int, help="(50,000: about 2.0 million tokens in every 25th batch)")
    parser.add_argument("--every", type=int, help="(25)")
    options = parser.parse_args(arguments)
    preset = preset_file("record_1061")
    machine = open_machine("ttt", flags)
    documents, every = (12, 2) if machine.tiny else (50000, 25)
    settings = {"DATA_PATH": "synthetic:documents", **(TINY_SCORES if machine.tiny else {})}
    trace = pathlib.Path(machine.work.name, "trace.json")
    lines = []
    for number in range(1, options.rounds + 1):
        name = f"batches.ttt.{number}"
        command = [BUILD / "phased_ttt_bench", options.documents or documents, options.every or every,
                   trace if number == 1 else "", "--config", preset, *flags]
        if not machine.start(name, command, machine.settings(settings), 600):
            return 1
        log = (machine.out / f"{name}.log").read_text()
        lines += [line for line in log.splitlines() if line.startswith(("scored", "base training"))]
    kernel_table.main(trace, 30)
    print("\n".join(lines))
    return 0
