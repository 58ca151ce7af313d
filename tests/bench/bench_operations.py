"""Times each operation alone in the programs of several builds: scripts/bench.sh operations."""
import argparse
import re
import statistics
import subprocess
import sys

from bench_table import aligned
from machine import BUILD, ROOT, say

ROW = re.compile(r"^(\S.*?) +(\d+\.\d{3})(?: |$)")  # a line of op_bench: operation, ms


def times_of(build, names, match):
    """Runs op_bench. Returns [(operation, ms)] in its order."""
    words = [build / "op_bench", *names, *(["--match", match] if match else [])]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"ERROR bench: operations: {build}/op_bench: exit status {done.returncode}")
    return [(found[1], float(found[2])) for found in map(ROW.match, done.stdout.splitlines()) if found]


def main(arguments, flags):
    parser = argparse.ArgumentParser(prog="scripts/bench.sh operations", allow_abbrev=False)
    parser.add_argument("--builds", nargs="+", default=[BUILD], help="build folders, the one before a change first")
    parser.add_argument("--names", nargs="+", default=[], help="op_bench's: record, speedrun_124m, heads, composed, speedrun_89 (all)")
    parser.add_argument("--match", default="", help="only operations whose name contains this")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    options = parser.parse_args(arguments)
    if flags:
        parser.error("expected no flags of train_gpt")
    say("each operation alone, in turns: ms (median) and ratio to the first build (median of rounds; least, most)")
    builds = [ROOT / build for build in options.builds]
    rounds = [[] for _ in builds]  # of each build, by round: ms of each operation
    operations = []
    for _ in range(options.rounds):
        for build, own in zip(builds, rounds):
            timed = times_of(build, options.names, options.match)
            operations = [operation for operation, _ in timed]  # the last build's names
            own.append([ms for _, ms in timed])
    if len({len(times) for own in rounds for times in own}) > 1:
        sys.exit("ERROR bench: operations: the builds time different operations; choose some that all have with --match")
    first = rounds[0]
    table = [["", "ms", *(cell for build in options.builds[1:] for cell in ("ms", str(build)))]]
    for i, operation in enumerate(operations):
        row = [operation, f"{statistics.median(times[i] for times in first):.3f}"]
        for own in rounds[1:]:
            ratios = [a[i] / b[i] if b[i] else 1 for a, b in zip(first, own)]
            ratio = f"{statistics.median(ratios):.3f} ({min(ratios):.3f}, {max(ratios):.3f})"
            row += [f"{statistics.median(times[i] for times in own):.3f}", ratio]
        table.append(row)
    print("\n".join(aligned(table)))
    return 0 if operations else 1
