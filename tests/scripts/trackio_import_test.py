"""scripts/trackio_import.py with the real trackio package: what its store on this machine has of a run. Needs an
environment with trackio: scripts/dev/package_check.sh trackio."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import unittest

from followed_run import FollowedRunTest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "trackio_import.py"


class TrackioFollowTest(FollowedRunTest):
    def stored(self):
        """Returns the database's rows [(step, numbers)] and the run's config."""
        with sqlite3.connect(self.folder / "store" / "train_gpt.db") as store:
            rows = [(step, json.loads(numbers)) for step, numbers in
                    store.execute("select step, metrics from metrics order by id")]
            config, = store.execute("select config from configs").fetchone()
        return rows, json.loads(config)

    def test_a_run_is_followed_while_it_trains_through_a_stop_and_a_resume(self):
        self.follow(sys.executable, SCRIPT, TRACKIO_DIR=str(self.folder / "store"))
        rows, config = self.stored()
        self.check_rows(rows)
        self.check_shared(config, (self.folder / "store" / "train_gpt.db").read_bytes())
        self.assertIn("memory/peak_allocated_bytes", rows[-1][1])

        again = subprocess.run([sys.executable, SCRIPT, self.folder / "followed"], capture_output=True, text=True, check=True,
                               env=dict(os.environ, TRACKIO_DIR=str(self.folder / "store")))
        self.assertIn("run test", again.stdout)
        self.check_rows(self.stored()[0])  # no step twice


if __name__ == "__main__":
    unittest.main()
