#!/usr/bin/env python3
"""Logs runs of train_gpt to trackio's store on this machine, once or, with --follow, while they train.

For each RUN it logs the settings as config, every number of metrics.jsonl at its step, and the final scores at the last
step, with the exit code of a run that failed. Settings that are paths are not logged. `trackio show --project
train_gpt` opens the page. TRACKIO_SPACE_ID or TRACKIO_SERVER_URL send the same to a server. The project is
TRACKIO_PROJECT, or train_gpt.
"""
import contextlib
import io
import os
import sys

import run_curves


class TrackioSink:
    def __init__(self, folder, config):
        import trackio

        self.project = os.environ.get("TRACKIO_PROJECT", "train_gpt")
        self.folder, self.name, self.at_the_end = folder, run_curves.run_name(folder, config), {}
        with contextlib.redirect_stdout(io.StringIO()):  # its banner
            self.run = trackio.init(project=self.project, name=self.name, config=config, resume="allow", embed=False,
                                    auto_log_gpu=False, auto_log_cpu=False)
        self.last_step = self.run._next_step - 1  # of an earlier call; it has no public name

    def row(self, step, numbers):
        self.run.log(numbers, step=step)

    def summary(self, numbers):
        self.at_the_end.update(numbers)

    def close(self, code):
        if code:
            self.at_the_end["exit/code"] = code
        if self.at_the_end:
            self.run.log(self.at_the_end, step=self.last_step)
        with contextlib.redirect_stdout(io.StringIO()):
            self.run.finish()
        print(f"{self.folder}: trackio show --project {self.project}, run {self.name}", flush=True)


if __name__ == "__main__":
    sys.exit(run_curves.main(__doc__, "trackio_import.py", "trackio", TrackioSink))
