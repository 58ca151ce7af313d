"""Times make_shards on JSON lines and on the same file compressed: scripts/bench.sh text."""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from machine import BUILD, ROOT

PACKERS = {"zst": ["zstd", "-q", "-f", "-k", "-3"], "gz": ["gzip", "-f", "-k", "-6"], "xz": ["xz", "-f", "-k", "-6"]}
GOAL_RATE, GOAL_MEMORY = 0.8, 1.1  # relative to the uncompressed file
ARROW_MIB = 64  # for Parquet: Arrow itself takes 20, and a page of each column is unpacked


def write_lines(path, megabytes):
    """Documents of some kilobytes with words of this repository's pages, at the same frequencies."""
    words = " ".join(page.read_text() for page in sorted(ROOT.glob("docs/*.md"))).split(" ")
    draw = random.Random(1337)
    with open(path, "w") as file:
        while file.tell() < megabytes * 1_000_000:
            text = " ".join(draw.choices(words, k=draw.randint(50, 1500)))
            file.write(json.dumps({"id": draw.getrandbits(32), "text": text}) + "\n")


def packed(name, lines):
    """Returns the path of the same documents in another format."""
    if name == "parquet":
        from pyarrow import json as arrow_json, parquet
        path = lines.with_suffix(".parquet")
        parquet.write_table(arrow_json.read_json(lines), path, compression="zstd", row_group_size=100_000)
        return path
    subprocess.run([*PACKERS[name], lines], check=True)
    return lines.with_name(f"{lines.name}.{name}")


def run(program, tokenizer, path, out):
    """Runs make_shards, which must write `out`; returns seconds, CPU seconds and peak MiB."""
    shutil.rmtree(out, ignore_errors=True)
    began = time.monotonic()
    child = subprocess.Popen([program, "--tokenizer", tokenizer, "--out", out, path], stdout=subprocess.DEVNULL)
    ended = status = peak_kib = 0
    while not ended:
        peak_kib = peak_of(child.pid) or peak_kib
        time.sleep(0.01)
        ended, status, usage = os.wait4(child.pid, os.WNOHANG)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{program} exited {child.returncode} on {path}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, peak_kib / 1024


def peak_of(pid):
    """Returns the peak memory in KiB. wait4's maximum would include the parent process before exec."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) if found else 0


def digests(folder):
    found = {}
    for path in sorted(folder.iterdir()):
        with open(path, "rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def main(arguments, _):
    parser = argparse.ArgumentParser(
        prog="scripts/bench.sh text", allow_abbrev=False,
        description="Tokenized bytes per second and peak memory of make_shards, in alternating runs, on JSON lines and on"
        " the same file compressed; the shards must be equal. The files are made in TMPDIR and deleted at the end. The exit"
        " status does not depend on the figures.")
    parser.add_argument("--tokenizer", default=str(ROOT / "tests" / "fixtures" / "data_exact.model"))
    parser.add_argument("--megabytes", type=int, default=1000, help="(1000)")
    parser.add_argument("--rounds", type=int, default=1, help="(1)")
    parser.add_argument("--formats", default="zst", help="of zst,gz,xz,parquet (zst); parquet requires pyarrow in PYTHON")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-text-") as work:
        compare(args, pathlib.Path(work))
    return 0


def compare(args, folder):
    """Times the files, in turn at going first, and prints the table and the goals."""
    lines = folder / "text.jsonl"
    write_lines(lines, args.megabytes)
    paths = {"jsonl": lines}
    for name in args.formats.split(","):
        paths[name] = packed(name, lines)
    figures = {name: [] for name in paths}
    first = None
    for number in range(args.rounds):
        for name in list(paths)[:: 1 if number % 2 == 0 else -1]:
            out = folder / "shards"
            figures[name].append(run(BUILD / "make_shards", args.tokenizer, paths[name], out))
            made = digests(out)
            first = first or made
            if made != first:
                sys.exit(f"{paths[name]} gave other shards than {lines}")

    size = lines.stat().st_size / 1e6
    seconds, cpu, memory = ({name: statistics.median(figure[i] for figure in runs) for name, runs in figures.items()}
                            for i in range(3))
    print(f"{'file':8} {'MB':>8} {'MB of text/s':>13} {'of .jsonl':>10} {'CPU s':>8} {'peak MiB':>9} {'of .jsonl':>10}")
    for name, path in paths.items():
        print(f"{name:8} {path.stat().st_size / 1e6:8.1f} {size / seconds[name]:13.2f} "
              f"{seconds['jsonl'] / seconds[name]:10.3f} {cpu[name]:8.1f} {memory[name]:9.1f} "
              f"{memory[name] / memory['jsonl']:10.3f}")
    for name in args.formats.split(","):
        rate = seconds["jsonl"] / seconds[name]
        bound = ARROW_MIB if name == "parquet" else GOAL_MEMORY * memory["jsonl"]
        holds = rate >= GOAL_RATE and memory[name] <= bound
        print(f"{'holds' if holds else 'MISSED'}: {name} at {GOAL_RATE} of the rate within {bound:.1f} MiB")

