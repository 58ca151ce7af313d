#!/usr/bin/env python3
"""Logs runs of train_gpt to Weights & Biases, offline or, with --follow, while they train.

For each RUN it logs the settings as config, every number of metrics.jsonl at its step, the final scores as summary, and
the exit code. Settings that are paths, the host's name, code and console output are not logged. Without --follow the
mode is offline: prints for each run the folder that `wandb sync` uploads. With --follow the mode is WANDB_MODE, or
wandb's own default, which uploads. Without network or login the run is logged offline, with one line; if the network
fails later, wandb keeps the data and tries again. The project is WANDB_PROJECT, or train_gpt.
"""
import hashlib
import os
import pathlib
import sys

import run_curves


class WandbSink:
    def __init__(self, folder, config):
        import wandb

        mode = os.environ.get("WANDB_MODE") if "--follow" in sys.argv else "offline"
        with open(folder / "metrics.jsonl", encoding="utf-8") as file:
            # A follower that starts again goes on with the same W&B run.
            identity = hashlib.blake2b(f"{folder.resolve()}\n{file.readline()}".encode(), digest_size=8).hexdigest()
        self.folder = folder
        settings = wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_meta=True, disable_code=True,
                                  disable_git=True, x_disable_machine_info=True, host="train_gpt")
        chosen = {"project": os.environ.get("WANDB_PROJECT", "train_gpt"), "name": run_curves.run_name(folder, config),
                  "id": identity, "config": config, "settings": settings}
        try:
            self.run = wandb.init(mode=mode, resume="allow" if mode != "offline" else None, **chosen)
        except wandb.errors.Error as error:  # no network, or no login
            first, *_ = str(error).splitlines()
            print(f"wandb_import.py: {folder}: {first}; logging offline, for wandb sync", file=sys.stderr, flush=True)
            wandb.teardown()  # frees the id
            self.run = wandb.init(mode="offline", **chosen)
        self.last_step = self.run.step - 1

    def row(self, step, numbers):
        self.run.log(numbers, step=step)

    def summary(self, numbers):
        self.run.summary.update(numbers)

    def close(self, code):
        where = pathlib.Path(self.run.dir).parent
        place = f"wandb sync {where}" if self.run.offline else self.run.url
        self.run.finish(exit_code=code)
        print(f"{self.folder}: {place}", flush=True)


if __name__ == "__main__":
    sys.exit(run_curves.main(__doc__, "wandb_import.py", "wandb", WandbSink))
