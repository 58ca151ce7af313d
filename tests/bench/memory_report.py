"""usage: memory_report.py DIR

Prints the table of scripts/bench_memory.sh from DIR's RECIPE.WAY.jsonl: recipes without a memory limit ("all") and with
limits.
"""
import pathlib
import statistics
import sys

from train_run import TrainRun

WAYS = {"all": "no limit", "light": "ACTIVATION_RECOMPUTE=light", "block": "ACTIVATION_RECOMPUTE=block"}


def way_of(name):
    return WAYS.get(name) or f"MEMORY_LIMIT_GB={name.removeprefix('limit_')}, auto"


def rows(folder):
    rates = {}
    order = [*WAYS, *sorted((path.stem.split(".")[1] for path in folder.glob("*.limit_*.jsonl")),
                            key=lambda way: float(way.removeprefix("limit_")))]
    for recipe in sorted({path.name.split(".")[0] for path in folder.glob("*.jsonl")}):
        for way in dict.fromkeys(order):
            path = folder / f"{recipe}.{way}.jsonl"
            if not path.exists():
                continue
            run = TrainRun(path)
            rates[way] = run.tokens_per_step / statistics.median(run.steps) * 1000
            cut = f"{run.micro_batch} of {run.micro_batch * run.parts}" if run.parts else ""
            yield (recipe, way_of(way), cut, f"{run.memory:,}", f"{rates[way]:,.0f}",
                   f"{rates[way] / rates['all']:.3f}" if "all" in rates else "")


print("| recipe | memory | sequences of a pass | peak MiB | tokens/s | of no limit |")
print("|---|---|---|---|---|---|")
for row in rows(pathlib.Path(sys.argv[1])):
    print("| " + " | ".join(row) + " |")
