#!/usr/bin/env python3
"""Runs a gtest program under compute-sanitizer within a time limit, for scripts/dev/gpu_sanitize.sh.

    sanitize.py [--seconds N] [--out FOLDER] PROGRAM [SUITE ...]

A plain run times the tests. Then, in rounds, each suite runs under each tool for a part of the remaining time, the
quickest remaining tests first, so that the first round reaches every suite under every tool. Time that a suite does
not use goes to the following suites and to the next round.
"""
import argparse
import collections
import contextlib
import functools
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time

# An error stops its kernel only. Destroying the context would make all later tests fail.
TOOLS = {"memcheck": ("--destroy-on-device-error", "kernel"), "racecheck": ()}
# Excluded: kernels of the references (ATen's, cuBLAS's in fp64), which would take nearly all of the time. cuBLAS's
# nvjet_* kernels stay because racecheck fails to launch them unchecked; reports about them are ignored.
UNCHECKED = [option for name in ("_ZN2at", "gemm") for option in ("--kernel-name-exclude", f"kernel_substring={name}")]
SMALL_MS = 20  # tests below this time in the plain run take about equally long under the tools
RUN = re.compile(r"\[ RUN      \] (\S+)$")
# Does not match the final list of failed tests, which has no times.
END = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)(?:, where .*)? \((\d+) ms\)$")
REPORT = re.compile(r"========= (?!COMPUTE-SANITIZER|Target application returned an error|\w+ SUMMARY:)\S")
OF_LIBRARIES = re.compile(r"========= .*Race reported between \w+ access at (?:void )?(?:nvjet_|cudnn)")
SUMMARY = re.compile(r"========= (?:ERROR|RACECHECK) SUMMARY: (\d+) ")

say = functools.partial(print, flush=True)


class Log:
    """The output of gtest and the tool: results and ms of the finished tests, and reports by test."""

    def __init__(self, path):
        self.results, self.ms, self.reports = {}, {}, collections.Counter()
        self.running = self.summary = None
        self.of_libraries = 0
        for line in path.read_text(errors="replace").splitlines():
            if found := RUN.search(line):
                self.running = found.group(1)
            elif found := END.search(line):
                self.results[found.group(2)], self.ms[found.group(2)] = found.group(1), int(found.group(3))
                self.running = None
            elif found := SUMMARY.match(line):
                self.summary = int(found.group(1))
            elif OF_LIBRARIES.match(line):
                self.of_libraries += 1
            elif REPORT.match(line):
                self.reports[self.running] += 1


def run(command, log, limit):
    """Returns the seconds and the exit status, None if it was killed at its limit."""
    began, status = time.monotonic(), None
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(limit)
    finally:
        with contextlib.suppress(ProcessLookupError):  # the process group is already gone
            os.killpg(process.pid, signal.SIGKILL)  # the tool and the program it started
        process.wait()
    return time.monotonic() - began, status


class Check:
    """A suite under a tool. `tests`: ms in the plain run, by test."""

    def __init__(self, tool, suite, tests):
        self.tool, self.suite, self.tests = tool, suite, tests
        self.pending = sorted(tests, key=tests.get)
        self.had_s = {}  # longest time after which a test was killed
        self.slowdowns = []
        self.least_s = 0.0  # shortest finished run: an upper bound of the start-up time
        self.runs, self.clean, self.errors, self.findings = 0, 0, 0, []
        self.stuck = False

    def batch(self, limit):
        """Returns the tests of the next run; none if no run within the limit could make progress.

        gtest keeps its own order within a run, and a start takes seconds: so this returns all remaining tests if they
        seem to fit, else those that take about as long as the quickest one, so that none waits behind a large test.
        """
        ready = [test for test in self.pending if 1.5 * self.had_s.get(test, 0) < limit]
        if self.stuck or not ready or limit <= self.least_s:
            return []
        if self.slowdowns:
            rest_s = statistics.median(self.slowdowns) * sum(self.tests[test] for test in ready) / 1000
            if self.least_s + 2 * rest_s < limit:
                return ready
        longest = max(SMALL_MS, 4 * self.tests[ready[0]])
        return [test for test in ready if self.tests[test] <= longest]

    def run(self, program, batch, out, limit):
        self.runs += 1
        path = out / f"{self.tool}.{self.suite}.{self.runs}.log"
        tool = ["compute-sanitizer", "--tool", self.tool, "--error-exitcode", "99", *UNCHECKED, *TOOLS[self.tool]]
        seconds, status = run([*tool, *program, "--gtest_filter=" + ":".join(batch)], path, limit)
        log = Log(path)
        self.take(batch, log, seconds, status, path)
        passed = sum(result == "OK" for result in log.results.values())
        killed = ", killed at its limit" if status is None else ""
        told = f"; of cuBLAS's and cuDNN's own kernels: {log.of_libraries} reports" if log.of_libraries else ""
        say(f"{self.tool:10}{self.suite}: {passed} of {len(batch)} tests passed in {seconds:.1f} s{killed}{told}")

    def take(self, batch, log, seconds, status, path):
        reports = max((log.summary or 0) - log.of_libraries, sum(log.reports.values()))
        inside = sum(log.reports[test] for test in batch)
        told = reports or log.of_libraries or log.running or "FAILED" in log.results.values()
        unclear = status is not None and not log.running and (log.summary is None or (status != 0 and not told))
        self.errors += reports
        for test, result in log.results.items():
            self.pending.remove(test)
            self.slowdowns.append(log.ms[test] / max(1, self.tests[test]))
            if result != "OK":
                self.found(f"{test} {result}", path)
            elif not (log.reports[test] or reports > inside or unclear):  # reports outside of tests may belong to any test
                self.clean += 1
        if reports:
            tests = [test for test in batch if log.reports[test]]
            self.findings.append(f"{self.tool}: reports: {reports} ({' '.join(tests) or 'outside the tests'}), {path}")
        if unclear:
            self.found(f"no clean end, exit status {status}", path)
        if status is None:
            for test in [log.running] if log.running else batch:
                self.had_s[test] = seconds - sum(log.ms.values()) / 1000
            return
        self.least_s = min(seconds, self.least_s or seconds)
        if log.running:
            self.pending.remove(log.running)
            self.found(f"{log.running} ended the program, exit status {status}", path)
        elif not log.results:
            self.stuck = True  # another run would not make progress either

    def found(self, what, path):
        self.errors += 1
        self.findings.append(f"{self.tool}: {what}, {path}")


def plain_run(program, wanted, out, limit):
    """Returns {suite: {test: ms}} for the tests that a run without a tool does not skip."""
    path = out / "plain.log"
    patterns = [pattern for suite in wanted for pattern in (f"{suite}.*", f"*/{suite}.*")]
    _, status = run([*program, "--gtest_filter=" + (":".join(patterns) or "*")], path, limit)
    log = Log(path)
    suites = collections.defaultdict(dict)
    for test, ms in log.ms.items():
        if log.results[test] != "SKIPPED":
            suites[test.split(".")[0].split("/")[-1]][test] = ms
    absent = [suite for suite in wanted if suite not in suites]
    if status not in (0, 1):
        how = "takes too long" if status is None else f"ends with exit status {status}"
        sys.exit(f"ERROR: without a tool {shlex.join(program)} {how}; see {path}")
    if absent or not suites:
        sys.exit(f"ERROR: no test ran{' of ' + ' '.join(absent) if absent else ''}; see {path}")
    return dict(sorted(suites.items()))


def spend(checks, program, out, deadline):
    """Repeats rounds over the checks with remaining tests, one run each for a part of the time, while any makes progress."""
    while True:
        begun = sum(check.runs for check in checks)
        todo = [check for check in checks if check.pending]
        for left, check in zip(range(len(todo), 0, -1), todo):
            limit = (deadline - time.monotonic()) / left
            if batch := check.batch(limit):
                check.run(program, batch, out, limit)
        if sum(check.runs for check in checks) == begun:
            return


def table(suites, checks):
    by_name = {(check.suite, check.tool): check for check in checks}
    width = max(map(len, suites))
    yield " " * (width + 8) + "".join(f"{'':4}{tool:26}" for tool in TOOLS).rstrip()
    yield f"{'suite':{width}}   tests" + "".join(f"{'clean':>9}{'not reached':>13}{'errors':>8}" for _ in TOOLS)
    for suite, tests in suites.items():
        row = f"{suite:{width}}{len(tests):8}"
        for tool in TOOLS:
            check = by_name[suite, tool]
            row += f"{check.clean:9}{len(check.pending):13}{check.errors:8}"
        yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--out", type=pathlib.Path, default="logs/gpu_sanitize")
    parser.add_argument("program")
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    args = parser.parse_args()
    # Killing a program also takes a moment.
    deadline = time.monotonic() + 0.98 * args.seconds
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # raises SystemExit, so that run()'s finally block runs
    args.out.mkdir(parents=True, exist_ok=True)
    for old in args.out.glob("*.log"):
        old.unlink()

    program = [os.path.abspath(args.program)]
    suites = plain_run(program, args.suites, args.out, args.seconds / 2)
    say(f"{'plain':10}{sum(map(len, suites.values()))} tests of {len(suites)} suites")
    checks = [Check(tool, suite, tests) for tool in TOOLS for suite, tests in suites.items()]
    spend(checks, program, args.out, deadline)

    say()
    for check in checks:
        if check.pending:
            say(f"{check.tool}: not reached: {' '.join(check.pending)}")
    for check in checks:
        for finding in check.findings:
            say(finding)
    say()
    for line in table(suites, checks):
        say(line)
    return int(any(check.errors or not check.clean for check in checks))


if __name__ == "__main__":
    sys.exit(main())
