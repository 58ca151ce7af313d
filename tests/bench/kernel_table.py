"""Sums the GPU time of each kernel in a trace of PROFILE=1, longest first.

usage: kernel_table.py TRACE.json [ROWS]
"""

import collections
import json
import re
import sys


def short(name):
    """Shortens a kernel's name by its template arguments and namespaces, as long as it stays recognizable."""
    name = re.sub(r"^void ", "", name).replace("(anonymous namespace)::", "")
    return name if len(name) <= 90 else name[:87] + "..."


def main(path, rows=40):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    kernels = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    steps = sum(event.get("name") == "train_step" and event.get("cat") == "user_annotation" for event in events) or 1
    sums = collections.defaultdict(lambda: [0, 0.0])
    for event in kernels:
        entry = sums[short(event["name"])]
        entry[0] += 1
        entry[1] += event["dur"] / 1000
    total = sum(milliseconds for _, milliseconds in sums.values())
    print(f"{len(kernels)} launches, {total / steps:.2f} ms a step of {steps}")
    print(f"{'ms a step':>10} {'share':>6} {'launches':>9}  kernel")
    for name, (count, milliseconds) in sorted(sums.items(), key=lambda item: -item[1][1])[: int(rows)]:
        print(f"{milliseconds / steps:10.3f} {100 * milliseconds / total:5.1f}% {count / steps:9.0f}  {name}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
