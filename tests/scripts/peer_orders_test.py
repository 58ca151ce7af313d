"""The PyTorch peer's orders of training tokens (tests/bench/peer/orders.py)."""
import itertools
import json
import pathlib
import sys
import types
import unittest

import numpy as np
import torch

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "bench"))

from peer.orders import aligned_order, training_order  # noqa: E402
from peer.schedule import stage_at  # noqa: E402
from peer.settings import settings_of  # noqa: E402
from peer.tokens import batches  # noqa: E402

ALIGNED = {"LOADER_ORDER": "aligned", "TRAIN_BATCH_TOKENS": 16, "GRAD_ACCUM_STEPS": 2, "BOS_ID": 7, "SEGMENT_LIMIT": 5,
           "RECORD_QUIRKS": False}


class Source:
    """Shards in memory."""

    def __init__(self, shards):
        self.lengths = [len(shard) for shard in shards]
        self.ids = np.concatenate(shards)

    def read(self, begin, count):
        return self.ids[begin : begin + count]


class AlignedOrder(unittest.TestCase):
    def test_it_reads_the_rows_that_the_script_reads(self):
        reference = json.loads((TESTS / "fixtures" / "aligned_rows.json").read_text())
        source = Source(reference["shards"])
        for run in reference["runs"]:
            shapes = itertools.repeat((reference["row_tokens"], reference["limit"]))
            order = aligned_order(source, reference["bos_id"], run["ranks"], shapes)
            for expected, row in zip(run["rows"], order):
                self.assertEqual(expected[:3], [row[:3].tolist(), row[:-1].sum(), row[-1]], run["ranks"])

    def test_without_quirks_a_round_is_a_step(self):
        # A row of nine tokens takes two documents: three rows are in the first shard, two in the second.
        source = Source([[7, 1, 2, 3, 4] * 6, [7, 5, 6, 8, 9] * 5])
        stages = itertools.repeat(types.SimpleNamespace(**ALIGNED))
        rows = list(itertools.islice(training_order(types.SimpleNamespace(**ALIGNED), source, stages), 4))
        self.assertEqual([1, 1, 5, 5], [int(row[1]) for row in rows])
        quirks = types.SimpleNamespace(**ALIGNED | {"RECORD_QUIRKS": True})
        rows = list(itertools.islice(training_order(quirks, source, stages), 4))
        self.assertEqual([1, 1, 1, 5], [int(row[1]) for row in rows])

    def test_a_stage_has_its_own_rows_and_longest_documents(self):
        source = Source([[7, 1, 2, 3, 4, 5, 6] * 6])
        settings = settings_of({"RECIPE": "speedrun_43", "LOADER_ORDER": "aligned", "NORMUON": "1", "CAUTIOUS_WD": "1",
                                "GRAD_ACCUM_STEPS": "1", "BOS_ID": "7", "TRAIN_BATCH_TOKENS": "5,9@2",
                                "SEGMENT_LIMIT": "3,6@1"})
        steps = batches(settings, source, torch.device("cpu"), (stage_at(settings, step) for step in range(3)))
        rows = [(inputs[0].tolist(), int(targets[0, -1]), bounds.unique().tolist()) for inputs, targets, bounds in steps]
        self.assertEqual([([7, 1, 2, 7, 1], 2, [0, 3, 5]),
                          ([7, 1, 2, 3, 4], 5, [0, 5]),
                          ([7, 1, 2, 3, 4, 5, 7, 1, 2], 3, [0, 6, 9])], rows)


if __name__ == "__main__":
    unittest.main()
