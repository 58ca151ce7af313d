"""scripts/run_curves.py, the reader behind wandb_import.py and trackio_import.py: what a sink gets of a growing file."""

import json
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import run_curves  # noqa: E402


class Sink:
    def __init__(self, last_step=-1):
        self.last_step, self.rows, self.end, self.code = last_step, [], {}, "open"

    def row(self, step, numbers):
        self.rows.append((step, numbers))

    def summary(self, numbers):
        self.end.update(numbers)

    def close(self, code):
        self.code = code


def line(event, **fields):
    return json.dumps({"event": event, **fields}) + "\n"


def step(number, loss=None):
    return line("train", step=number, train_loss=loss or 10 - number)


class RunCurvesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.metrics = self.folder / "metrics.jsonl"
        self.sinks = []
        self.reader = run_curves.Run(self.folder, self.open_sink)

    def open_sink(self, _):
        self.sinks.append(Sink())
        return self.sinks[-1]

    def append(self, *lines):
        with open(self.metrics, "a", encoding="utf-8") as file:
            file.write("".join(lines))

    def losses(self, sink=0):
        return [(number, row["train/loss"]) for number, row in self.sinks[sink].rows]

    def test_a_growing_file_gives_each_step_once_and_no_half_line(self):
        self.append(line("start", tokens_per_step=1, world_size=1), step(1), step(2)[:9])
        self.assertFalse(self.reader.poll())
        self.append(step(2)[9:], line("val", step=2, val_loss=7.5))
        self.assertFalse(self.reader.poll())
        self.assertEqual([(1, 9)], self.losses())
        self.append(step(3), line("memory", peak_allocated_bytes=5), line("exit", code=0, step=3, text=""))
        self.assertTrue(self.reader.poll())
        self.reader.finish()
        self.assertEqual([(1, {"train/loss": 9}), (2, {"train/loss": 8, "val/loss": 7.5}), (3, {"train/loss": 7})],
                         self.sinks[0].rows)
        self.assertEqual(({"memory/peak_allocated_bytes": 5}, 0), (self.sinks[0].end, self.sinks[0].code))

    def test_a_run_that_goes_on_from_a_checkpoint_gives_each_step_once(self):
        self.append(step(1), step(2), step(3), step(4), line("exit", code=75, step=4, text="stopped"))
        self.assertTrue(self.reader.poll())
        kept = len(step(1) + step(2))
        for more in ([step(3)], [step(n) for n in range(3, 9)]):  # shorter than what was read, and longer
            os.truncate(self.metrics, kept)
            self.append(line("resume", step=2), *more)
            self.assertFalse(self.reader.poll())
        self.append(line("exit", code=0, step=8, text=""))
        self.assertTrue(self.reader.poll())
        self.reader.finish()
        self.assertEqual([(n, 10 - n) for n in range(1, 9)], self.losses())
        self.assertEqual(0, self.sinks[0].code)

    def test_a_new_run_of_the_same_name_is_another_run(self):
        self.append(step(1), step(2))
        self.reader.poll()
        self.append(step(3))
        self.metrics.rename(self.folder / "metrics.1.jsonl")
        self.assertFalse(self.reader.poll())  # between the two names
        self.append(step(1, 5), step(2, 4))
        self.assertFalse(self.reader.poll())
        self.reader.finish()
        self.assertEqual([(1, 9), (2, 8), (3, 7)], self.losses(0))
        self.assertEqual([(1, 5), (2, 4)], self.losses(1))
        self.assertEqual([None, None], [sink.code for sink in self.sinks])

    def test_a_sink_that_has_steps_gets_the_others(self):
        self.append(step(1), step(2), step(3))
        self.reader.open_sink = lambda _: self.sinks.append(Sink(last_step=2)) or self.sinks[-1]
        self.reader.poll()
        self.reader.finish()
        self.assertEqual([(3, 7)], self.losses())

    def test_following_waits_for_the_run_and_ends_with_it(self):
        follower = threading.Thread(target=run_curves.follow, args=(self.reader, 0.01, 0.3))
        follower.start()
        time.sleep(0.05)  # there is no file yet
        self.append(step(1))
        time.sleep(0.05)
        self.append(step(2), line("exit", code=75, step=2, text="stopped"))
        time.sleep(0.05)
        self.assertTrue(follower.is_alive())  # it may go on
        os.truncate(self.metrics, len(step(1)))
        self.append(line("resume", step=1), step(2))
        time.sleep(0.5)
        self.assertTrue(follower.is_alive())
        self.append(line("exit", code=70, step=2, text="failed"))
        follower.join(5)
        self.assertFalse(follower.is_alive())
        self.assertEqual(([(1, 9), (2, 8)], 70), (self.losses(), self.sinks[0].code))

    def test_a_run_is_named_by_its_id_or_else_its_folder(self):
        folder = pathlib.Path("logs/first")
        self.assertEqual("mine", run_curves.run_name(folder, {"RUN_ID": "mine"}))
        for made_up in ({"RUN_ID": "36d93f38-6d1f-4488-b846-7aed5919bc22"}, {"RUN_ID": ""}, {}):
            self.assertEqual("first", run_curves.run_name(folder, made_up))

    def test_settings_that_are_paths_are_shared_only_if_asked(self):
        settings = {"MATRIX_LR": 0.02, "DATA_PATH": "shards", "OUTPUT_DIR": "logs/a", "INIT_FROM": "", "RESUME": "auto",
                    "RUN_ID": "team/one", "RECIPE": "record"}
        self.assertEqual({"MATRIX_LR": 0.02, "RECIPE": "record"}, run_curves.shareable(settings, with_paths=False))
        self.assertEqual(settings, run_curves.shareable(settings, with_paths=True))


if __name__ == "__main__":
    unittest.main()
