"""TENSORBOARD=1: TensorBoard's own reader finds in a run's event files the numbers of metrics.jsonl."""

import json
import math
import struct
import unittest

from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.util import tensor_util

from harness import RunTest, read_events

STEPPED = {"train": "train", "val": "val", "timing": "timing", "checkpoint": "checkpoint"}


def fp32(number):
    return math.nan if number is None else struct.unpack("f", struct.pack("f", number))[0]


def expected(events):
    """Returns {(tag, step): number} of metrics.jsonl, for events that have a step."""
    scalars = {}
    for event in events:
        name = event["event"]
        for field, number in event.items():
            if name in STEPPED and field != "step" and not isinstance(number, str):
                scalars[f"{name}/{field.removeprefix(name + '_')}", event["step"]] = fp32(number)
    return scalars


class TensorboardTest(RunTest):
    def files(self, folder="out", events="tensorboard"):
        return sorted((self.folder / folder / events).iterdir())

    def read(self, path):
        return list(LegacyEventFileLoader(str(path)).Load())

    def scalars(self, paths):
        """Returns {(tag, step): number}; each may occur once."""
        found = {}
        for path in paths:
            for event in self.read(path):
                for value in event.summary.value:
                    if value.HasField("simple_value"):
                        self.assertNotIn((value.tag, event.step), found)
                        found[value.tag, event.step] = value.simple_value
        return found

    def compare(self, events, found):
        for key, number in expected(events).items():
            self.assertEqual(found[key], number, key)

    def train_once(self):
        """Returns the events of a run with every kind of number, in the folder "out"."""
        if not (self.folder / "out").exists():
            self.train(TENSORBOARD=1, TRAINING_TIMING_BREAKDOWN="events", CHECKPOINT_EVERY=4, ARTIFACT="int6",
                       MATRIX_LR=0.03)
        return read_events(self.folder / "out")

    def test_every_number_of_metrics_jsonl_is_there(self):
        events = self.train_once()
        path, = self.files()
        found = self.scalars([path])
        self.compare(events, found)
        train = [event for event in events if event["event"] == "train"]
        for before, event in zip(train, train[1:]):
            step = event["step"]
            self.assertEqual(found["lr/matrix", step], fp32(0.03 * event["lr_scale"]))
            rate = self.small["TRAIN_BATCH_TOKENS"] / (event["train_time_ms"] - before["train_time_ms"]) * 1000
            self.assertAlmostEqual(found["train/tokens_per_s", step] / rate, 1, places=5)
        for event in events:
            if event["event"] == "final":
                self.assertEqual(found[f"final/{event['name']}/loss", 8], fp32(event["val_loss"]))
            if event["event"] == "memory":
                self.assertEqual(found["memory/peak_allocated_bytes", 8], fp32(event["peak_allocated_bytes"]))
        times = [event.wall_time for event in self.read(path)]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[-1] - times[0], 120)

    def test_operations_of_a_token_follow_the_length_of_the_rows(self):
        events = self.train(output="lengths", TENSORBOARD=1, TRAIN_SEQ_LEN="16,32@5", CHECKPOINT_EVERY=6, KEEP=9)
        # A run that resumes after the change of lengths has not seen the change's event.
        resumed = self.train(output="lengths", TENSORBOARD=1, TRAIN_SEQ_LEN="16,32@5", CHECKPOINT_EVERY=6,
                             RESUME=self.folder / "lengths" / "checkpoints" / "step-00000006")
        self.compare(resumed, self.scalars(self.files("lengths")))
        for run in (events, resumed):
            train = [event for event in run if event["event"] == "train"]
            self.assertEqual([event["seq_len"] for event in train], [16] * 5 + [32] * 3)
            self.assertEqual(len({event["flops_per_token"] for event in train[:5]}), 1)
            # Attention: q·kᵀ and p·v over half of a row, forward and twice backward, for 4 layers of 32 channels.
            for event in train[5:]:
                self.assertEqual(event["flops_per_token"] - train[0]["flops_per_token"], 6 * 4 * 32 * 16)

    def test_tensorboard_shows_the_run_and_its_settings(self):
        self.train_once()
        shown = plugin_event_accumulator.EventAccumulator(str(self.folder / "out" / "tensorboard"))
        shown.Reload()
        self.assertIn("train/loss", shown.Tags()["tensors"])
        self.assertEqual(shown.SummaryMetadata("train/loss").plugin_data.plugin_name, "scalars")
        self.assertEqual([event.step for event in shown.Tensors("train/loss")], list(range(1, 9)))
        self.assertEqual(shown.SummaryMetadata("settings").plugin_data.plugin_name, "text")
        text = tensor_util.make_ndarray(shown.Tensors("settings")[0].tensor_proto)[0].decode()
        self.assertIn("    MODEL_DIM=32\n", text)

    def test_a_damaged_record_is_found(self):
        self.train_once()
        path, = self.files()
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        damaged = self.folder / path.name
        damaged.write_bytes(data)
        self.assertLess(len(self.read(damaged)), len(self.read(path)))  # the reader stops at a wrong CRC

    def test_a_resumed_run_adds_a_file_without_doubles(self):
        self.train(output="again", TENSORBOARD=1, CHECKPOINT_EVERY=4, KEEP=9)
        checkpoint = self.folder / "again" / "checkpoints" / "step-00000004"
        for _ in range(2):  # the second time another file is in the way
            events = self.train(output="again", TENSORBOARD=1, CHECKPOINT_EVERY=4, KEEP=9, RESUME=checkpoint)
            paths = self.files("again")
            self.assertEqual(len(paths), 2)
            self.compare(events, self.scalars(paths))
            self.assertEqual(max(event.step for event in self.read(paths[0])), 4)
            restart, = [event for event in self.read(paths[1]) if event.HasField("session_log")]
            self.assertEqual((restart.session_log.status, restart.step), (SessionLog.START, 5))

    def test_a_new_run_puts_the_files_of_the_earlier_one_aside(self):
        for seed in (1, 2):
            events = self.train(output="twice", RUN_ID="twice", TENSORBOARD=1, SEED=seed)
        self.compare(events, self.scalars(self.files("twice")))
        first = [json.loads(line) for line in (self.folder / "twice" / "metrics.1.jsonl").read_text().splitlines()]
        self.compare(first, self.scalars(self.files("twice", "tensorboard.1")))
        self.assertNotEqual(first, events)
        # Without the setting there is no folder.
        events = self.train(output="twice", RUN_ID="twice")
        self.assertNotEqual(events, [])
        self.assertEqual(sorted(path.name for path in (self.folder / "twice").glob("tensorboard*")),
                         ["tensorboard.1", "tensorboard.2"])


if __name__ == "__main__":
    unittest.main()
