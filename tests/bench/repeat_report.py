#!/usr/bin/env python3
"""usage: repeat_report.py FOLDER

Compares the runs of one command (scripts/dev/gpu_repeat.sh) whose output folders are in FOLDER: losses and gradient norms
of every step, and every tensor except times of each run's first checkpoint. A pattern has a letter for each run, equal
for equal bits: in AABA only the third run differs. Ends with one line; exit status 1 if anything differs.
"""
import collections
import hashlib
import json
import pathlib
import re
import sys

STEPS = ("train_loss", "grad_norm")
TIMES = ("clock.", "pace.", "validation_ms")  # differ between any two runs
NAMED = 8  # names printed at most per kind and pattern


def pattern(values):
    letters = {}
    return "".join(letters.setdefault(value, chr(ord("A") + len(letters) % 26)) for value in values)


def steps(folder):
    """Returns {(step, field): the number's text} of a run."""
    path = folder / "metrics.jsonl"
    events = map(json.loads, path.read_text().splitlines() if path.exists() else [])
    return {(event["step"], field): repr(event.get(field)) for event in events if event["event"] == "train"
            for field in STEPS}


def tensors(checkpoint):
    """Returns {name: digest} of the tensors in all ranks' safetensors files (header length, header, bytes)."""
    digests = {}
    for path in sorted(checkpoint.glob("*.safetensors")):
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                if name.startswith(TIMES):
                    continue
                begin, end = entry["data_offsets"]
                file.seek(8 + size + begin)
                digests[name] = hashlib.blake2b(file.read(end - begin)).hexdigest()
    return digests


def kind(name):
    return re.match(r"(optimizer\.[a-z_]+|[a-z_]+)", name).group(1)


def compare(of_runs):
    """[{key: value}], one per run → {pattern: keys}."""
    keys = dict.fromkeys(key for run in of_runs for key in run)
    found = collections.defaultdict(list)
    for key in keys:
        found[pattern([run.get(key) for run in of_runs])].append(key)
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folders = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir())
    numbers = [steps(folder) for folder in folders]
    checkpoints = [sorted(folder.glob("checkpoints/step-*"))[:1] for folder in folders]
    if not folders or not all(numbers) or not all(checkpoints):
        print(f"{sum(map(bool, numbers))} of {len(folders)} runs have losses, {sum(map(bool, checkpoints))} checkpoints")
        return 1
    alike = "A" * len(folders)
    told, same = [], True
    for field in STEPS:
        found = [pattern([run.get(key) for run in numbers]) for key in numbers[0] if key[1] == field]
        same &= set(found) == {alike}
        told.append(f"{field} {' '.join(found)}")
    at_step = int(checkpoints[0][0].name.removeprefix("step-"))
    state = compare([tensors(*checkpoint) for checkpoint in checkpoints])
    kinds = collections.defaultdict(lambda: collections.defaultdict(list))
    for found, names in state.items():
        for name in names:
            kinds[kind(name)][found].append(name)
    for of_kind, patterns in sorted(kinds.items()):
        for found, names in sorted(patterns.items()):
            which = "" if found == alike else ": " + " ".join(sorted(names)[:NAMED]) + (" …" if len(names) > NAMED else "")
            print(f"after step {at_step}: {found} {len(names):4} of {of_kind}{which}")
    different = sum(len(names) for found, names in state.items() if found != alike)
    same &= not different
    total = sum(map(len, state.values()))
    print(f"{'the same bits' if same else 'DIFFERENT'}: {'; '.join(told)}; {different} of {total} tensors differ after step {at_step}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
