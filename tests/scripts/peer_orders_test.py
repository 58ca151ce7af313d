"""The PyTorch peer's orders of training tokens (tests/bench/peer/orders.py)."""
import itertools
import json
import pathlib
import sys
import types
import unittest

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "bench"))

from peer.orders import aligned_order, training_order  # noqa: E402


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
            order = aligned_order(source, reference["row_tokens"], reference["bos_id"], reference["limit"], run["ranks"])
            for expected, row in zip(run["rows"], order):
                self.assertEqual(expected[:3], [row[:3].tolist(), row[:-1].sum(), row[-1]], run["ranks"])

    def test_without_quirks_a_round_is_a_step(self):
        # A row of nine tokens takes two documents: three rows are in the first shard, two in the second.
        source = Source([[7, 1, 2, 3, 4] * 6, [7, 5, 6, 8, 9] * 5])
        settings = types.SimpleNamespace(
            LOADER_ORDER="aligned", TRAIN_BATCH_TOKENS=16, GRAD_ACCUM_STEPS=2, BOS_ID=7, SEGMENT_LIMIT=5,
            RECORD_QUIRKS=False)
        rows = list(itertools.islice(training_order(settings, source), 4))
        self.assertEqual([1, 1, 5, 5], [int(row[1]) for row in rows])
        settings.RECORD_QUIRKS = True
        rows = list(itertools.islice(training_order(settings, source), 4))
        self.assertEqual([1, 1, 1, 5], [int(row[1]) for row in rows])


if __name__ == "__main__":
    unittest.main()
