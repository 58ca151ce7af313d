"""Runs the GPU tests of build/ on all GPUs that a program here sees: gpu_tests.py [--ranks] [--seconds N] [--shards N] OUT

Test programs run in shards, several at a time on each GPU. Then come the tests of whole runs on one GPU, which may take
all of its memory, in shards of one per GPU at a time, and at last those that share all GPUs between ranks, one by one;
with --ranks these alone.
Writes every output to OUT/NAME.log as it comes and a row per program to standard output. What still runs after
--seconds is killed, so that a machine's own limit cannot take the logs. With HOPPER=0 the kernels of other GPUs are
tested. Exit status 1 where a test failed.
"""

import argparse
import dataclasses
import itertools
import os
import pathlib
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
from machine import BUILD, ROOT, visible_gpus

FILTER = "--gtest_filter=*Gpu*:*Cuda*"
SKIPPED = 77
COUNTS = re.compile(r"^\[  (PASSED|FAILED|SKIPPED) *\] (\d+) test", re.MULTILINE)
ENDS = re.compile(r"^(?:OK|FAILED)\b.*", re.MULTILINE)  # unittest's last line


@dataclasses.dataclass
class Job:
    title: str  # of its row
    name: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    status: str = ""
    output: str = ""


def has_gpu_tests(program):
    listed = subprocess.run([program, FILTER, "--gtest_list_tests"], capture_output=True, text=True, check=False)
    return "\n  " in listed.stdout


def shards_of_program(program, count):
    return [Job(program.name, f"{program.name}.{i}", [program, FILTER], {"GTEST_TOTAL_SHARDS": count, "GTEST_SHARD_INDEX": i})
            for i in range(count)]


def shards_of_file(name, count):
    """Returns jobs for the tests of tests/e2e/NAME.py."""
    tests = []
    for case in unittest.defaultTestLoader.loadTestsFromName(name):
        tests += [test.id().removeprefix(f"{name}.") for test in case]
    command = [sys.executable, ROOT / "tests/runner/run_unittest.py", ROOT / f"tests/e2e/{name}.py"]
    return [Job(f"tests/e2e/{name}", f"{name}.{i}", [*command, *tests[i::count]]) for i in range(min(count, len(tests)))]


def run(job, gpus, end, folder):
    """Runs the job on these GPUs until `end`, and sets its status and output."""
    log, began = folder / f"{job.name}.log", time.monotonic()
    environment = {**os.environ, **{name: str(value) for name, value in job.environment.items()},
                   "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    with open(log, "wb") as out:
        process = subprocess.Popen(job.command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   start_new_session=True)
        try:
            code = process.wait(max(0, end - began))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    seconds = time.monotonic() - began
    job.status = {0: f"ok   {seconds:.0f}s", SKIPPED: "skipped"}.get(code, f"FAIL exit {code}")
    job.output = log.read_text(errors="replace")


def print_row(title, jobs):
    """Prints one row for the shards of a program; returns whether they passed."""
    failed = [job.status for job in jobs if job.status.startswith("FAIL")]
    ended = [job.status for job in jobs if job.status.startswith("ok")]
    counts = {}
    for word, number in itertools.chain.from_iterable(COUNTS.findall(job.output) for job in jobs):
        counts[word] = counts.get(word, 0) + int(number)
    words = [f"{word} {number}" for word, number in counts.items()]
    words += dict.fromkeys(itertools.chain.from_iterable(ENDS.findall(job.output)[-1:] for job in jobs))
    print(f"{title:<22} {', '.join([(failed or ended or ['skipped'])[-1], *words])}", flush=True)
    return not failed


def run_on_each(gpus, jobs, at_a_time, end, folder):
    """Runs every job on one GPU, `at_a_time` of them on each."""
    waiting = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)

    def work(gpu):
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            run(job, [gpu], end, folder)

    workers = [threading.Thread(target=work, args=(gpu,)) for gpu in gpus for _ in range(at_a_time)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def print_rows(jobs):
    """Prints a row for every program; returns whether all passed."""
    passed = [print_row(title, list(of_title)) for title, of_title in itertools.groupby(jobs, lambda job: job.title)]
    return all(passed)


def run_tests_of_one_gpu(gpus, shards, end, folder):
    """Returns whether all passed."""
    programs = [path for path in sorted(BUILD.rglob("*_tests")) if os.access(path, os.X_OK) and has_gpu_tests(path)]
    if not programs:
        print(f"{'tests':<22} FAIL no GPU test in {BUILD} (built with -DTRAIN_GPT_TESTS=ON?)")
        return False
    kernels = [job for path in programs for job in shards_of_program(path, shards)]
    run_on_each(gpus, kernels, shards, end, folder)
    passed = print_rows(kernels)
    runs = shards_of_file("gpu_test", shards)
    run_on_each(gpus, runs, 1, end, folder)
    return print_rows(runs) and passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--shards", type=int, default=4, help="of a program, and how many run at a time on a GPU (4)")
    parser.add_argument("out", metavar="OUT", type=pathlib.Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.seconds
    gpus = visible_gpus()
    # ATen's reference operations would start a thread for each core in every program.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // (options.shards * len(gpus)))))
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    passed = options.ranks or run_tests_of_one_gpu(gpus, options.shards, end, options.out)
    for name in ("ranks_gpu_test", "repeat_gpu_test", "worlds_gpu_test"):
        job, = shards_of_file(name, 1)
        run(job, gpus, end, options.out)
        passed &= print_rows([job])
    return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
