"""A real run that an importer follows while it trains: it is stopped, and goes on from its checkpoint."""

import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import SMALL, RunTest, read_events, read_until, saved_line  # noqa: E402

SETTINGS = dict(SMALL, ITERATIONS=30, CHECKPOINT_EVERY=4, VAL_LOSS_EVERY=10)


class FollowedRunTest(RunTest):
    def follow(self, *command, **environment):
        """Starts the follower, then the run; returns the run's events and what the follower printed."""
        out = self.folder / "followed"
        follower = subprocess.Popen([*map(str, command), "--follow", "--every", "0.1", out], cwd=self.folder, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **environment))
        self.addCleanup(follower.kill)
        with self.start_gpt(output="followed", **SETTINGS) as process:
            read_until(process, saved_line(out, 8))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        self.assertIsNone(follower.poll())  # it waits for the run to go on
        self.train(output="followed", RESUME="auto", **SETTINGS)
        printed, errors = follower.communicate(timeout=60)
        self.assertEqual(0, follower.returncode, errors)
        return read_events(out), printed

    def check_rows(self, rows):
        """rows: [(step, {name: number})], as the package's store has them."""
        events = read_events(self.folder / "followed")
        losses = [(event["step"], event["train_loss"]) for event in events if event["event"] == "train"]
        found = [(step, row["train/loss"]) for step, row in rows if "train/loss" in row]
        self.assertEqual(list(range(1, 31)), [step for step, _ in found])
        self.assertEqual(losses, found)
        self.assertEqual({0, 10, 20, 30}, {step for step, row in rows if "val/loss" in row})

    def check_shared(self, config, stored):
        """config: the settings in the store; stored: its bytes."""
        self.assertEqual(json.loads(json.dumps(config["MODEL_DIM"])), SMALL["MODEL_DIM"])
        for word in (str(self.folder), str(self.shards), "DATA_PATH"):
            self.assertNotIn(word.encode(), stored, word)
