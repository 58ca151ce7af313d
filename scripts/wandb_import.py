#!/usr/bin/env python3
"""usage: wandb_import.py RUN...

Imports finished or running runs of train_gpt into the wandb package, offline. For each RUN (a run's folder, such as
logs/RUN_ID) it logs the settings as config, every number of metrics.jsonl at its step, the final scores as summary,
and the exit code. Writes wandb/ in the current folder and prints for each run the folder that `wandb sync`
uploads. The project is WANDB_PROJECT, or train_gpt.
"""
import json
import os
import pathlib
import sys

AT_A_STEP = {"train", "timing", "val", "skipped_step", "checkpoint"}
AT_THE_END = {"memory", "closing", "artifact"}


def numbers(event, prefix):
    """Returns the numbers of an event by name: train_loss of `train` becomes train/loss. null means not finite."""
    return {f"{prefix}/{field.removeprefix(event['event'] + '_')}": float("nan") if value is None else value
            for field, value in event.items()
            if field != "step" and (value is None or type(value) in (int, float))}


def import_run(wandb, folder):
    config = json.loads((folder / "config.json").read_text())
    name = config["settings"].get("RUN_ID") or folder.name
    run = wandb.init(project=os.environ.get("WANDB_PROJECT", "train_gpt"), name=name, config=config["settings"], mode="offline",
                     settings=wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True))
    # A val event follows the train event of its step: all numbers of a step are logged in one call.
    step, row, code = 0, {}, None
    for line in (folder / "metrics.jsonl").open():
        if not line.endswith("\n"):  # the run is still writing this line
            break
        event = json.loads(line)
        kind = event["event"]
        code = event["code"] if kind == "exit" else None
        if kind in AT_A_STEP:
            if event["step"] > step:
                run.log(row, step=step)
                step, row = event["step"], {}
            row.update(numbers(event, kind))
        elif kind in AT_THE_END:
            run.summary.update(numbers(event, kind))
        elif kind == "final":
            run.summary.update(numbers({**event, "event": "val"}, f"final/{event['name']}"))
    run.log(row, step=step)
    where = pathlib.Path(run.dir).parent
    run.finish(exit_code=code)
    return where


def main():
    folders = [pathlib.Path(word) for word in sys.argv[1:]]
    if not folders or sys.argv[1] in ("-h", "--help"):
        print(__doc__.strip(), file=sys.stdout if folders else sys.stderr)
        return 0 if folders else 64
    for folder in folders:
        for name in ("metrics.jsonl", "config.json"):
            if not (folder / name).is_file():
                print(f"wandb_import.py: {folder / name}: no such file (expected a run's folder, such as logs/RUN_ID)", file=sys.stderr)
                return 66
    try:
        import wandb
    except ImportError:
        print("wandb_import.py: the package wandb is not installed; install it with: pip install wandb", file=sys.stderr)
        return 69
    for folder in folders:
        print(f"{folder}: wandb sync {import_run(wandb, folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
