"""Training tokens in train_gpt's order: from shards, or the same tokens as synthetic:zipf and synthetic:documents."""
import functools
import itertools
import pathlib
import sys

import numpy as np
import torch

from peer.orders import training_order
from peer.settings import micro_batches, row_length


class Shards:
    """The training tokens, shard after shard, repeated endlessly."""

    def __init__(self, folder):
        paths = sorted(pathlib.Path(folder).glob("fineweb_train_*.bin"))
        if not paths:
            sys.exit(f"no fineweb_train_*.bin in {folder}")
        self.shards = [np.memmap(path, dtype="<u2", mode="r", offset=1024) for path in paths]
        self.lengths = [len(shard) for shard in self.shards]

    def read(self, begin, count):
        begin %= sum(self.lengths)
        parts = []
        while count > 0:
            for shard in self.shards:
                if begin < len(shard):
                    parts.append(np.asarray(shard[begin : begin + count]))
                    count -= len(parts[-1])
                    begin = 0
                    if count == 0:
                        break
                else:
                    begin -= len(shard)
        return np.concatenate(parts).astype(np.int64)


def splitmix64(key, index):
    """Returns element `index` of the SplitMix64 sequence from `key`, modulo 2^64."""
    with np.errstate(over="ignore"):
        bits = np.uint64(key) + (np.asarray(index, np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def key_of(seed, text):
    key = splitmix64(seed, 0)
    for letter in text.encode():
        key = splitmix64(key, letter)
    return key


class ZipfTokens:
    """The same tokens as synthetic:zipf: a hash of the position draws from Walker's alias table for the weights
    1 / (rank + 3)."""

    lengths = [10_000_000_000]

    def __init__(self, vocabulary, seed, without=-1):
        """without: an excluded id."""
        self.key = key_of(seed, "train")
        ids = np.arange(vocabulary)
        draws = splitmix64(key_of(seed, "ids"), np.arange(vocabulary + 1)) >> np.uint64(32)
        for i in range(vocabulary, 1, -1):
            other = int(draws[i]) * i >> 32
            ids[[i - 1, other]] = ids[[other, i - 1]]
        ids = ids[ids != without]
        vocabulary = len(ids)
        shares = 1 / (np.arange(vocabulary) + 3.0)
        # cumsum instead of sum, for the same rounding as a loop.
        shares = (shares * (vocabulary / np.cumsum(shares)[-1])).tolist()
        filled, rest = np.ones(vocabulary), np.arange(vocabulary)

        def settle(rank, other):
            filled[rank], rest[rank] = shares[rank], other
            shares[other] -= 1 - shares[rank]

        large, small = 0, vocabulary - 1
        while small > large:
            settle(small, large)
            while large + 1 < small and shares[large] < 1:
                settle(large, large + 1)
                large += 1
            small -= 1
        rest[large] = large
        self.threshold = np.minimum(np.floor(filled * 2.0**32), 2.0**32 - 1).astype(np.uint64)
        self.below, self.above = ids, ids[rest]

    def read(self, begin, count):
        bits = splitmix64(self.key, np.arange(begin, begin + count) % self.lengths[0])
        column = ((bits >> np.uint64(32)) * np.uint64(len(self.below)) >> np.uint64(32)).astype(np.int64)
        below = (bits & np.uint64(0xFFFFFFFF)) < self.threshold[column]
        return np.where(below, self.below[column], self.above[column])


class Documents(ZipfTokens):
    """The same tokens as synthetic:documents: BOS begins documents of log-normal length."""

    BLOCK = 1 << 20  # tokens; each block begins with a document

    def __init__(self, vocabulary, seed, bos_id):
        super().__init__(vocabulary, seed, without=bos_id)
        self.documents_key, self.bos_id = key_of(seed, "train documents"), bos_id

    @functools.lru_cache(maxsize=2)
    def begins(self, block):
        """Returns where the documents of a block begin, relative to its first token."""
        key = splitmix64(self.documents_key, block)
        bits = splitmix64(key, np.arange(self.BLOCK)).reshape(-1, 2)  # two draws per document, for more documents than fit
        radius, turn = (((bits >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53).T
        normal = np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)  # Box-Muller transform
        lengths = np.maximum(2, np.rint(500 * np.exp(1.14 * normal)).astype(np.int64))
        begins = np.cumsum(lengths) - lengths
        return begins[begins < self.BLOCK]

    def read(self, begin, count):
        tokens = super().read(begin, count)
        position = np.arange(begin, begin + count) % self.lengths[0]
        for block in np.unique(position // self.BLOCK):
            tokens[np.isin(position, self.begins(int(block)) + block * self.BLOCK)] = self.bos_id
        return tokens


def segment_bounds(inputs, bos_id, limit):
    """Returns a row's segment offsets [n + 1] int32: segments begin at each BOS and every `limit` tokens after it. The
    row's end is repeated up to a multiple of 256 segments, so that new shapes, which cause recompilation, are rare."""
    begins = np.union1d([0], np.flatnonzero(inputs == bos_id))
    ends = np.append(begins[1:], len(inputs))
    starts = np.concatenate([np.arange(begin, end, limit) for begin, end in zip(begins, ends)])
    empty = -len(starts) % 256 + 1
    return np.append(starts, np.full(empty, len(inputs))).astype(np.int32)


def open_source(s):
    if s.DATA_PATH == "synthetic:documents":
        return Documents(s.VOCAB_SIZE, s.SEED, s.BOS_ID)
    if s.DATA_PATH == "synthetic:zipf":
        return ZipfTokens(s.VOCAB_SIZE, s.SEED)
    return Shards(s.DATA_PATH)


def on_device(array, device):
    """Returns the array as a tensor, of which a GPU copies pinned memory without the program waiting."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def batches(s, source, device, stages):
    """Yields micro-batches: inputs and targets [B, T], and the segment offsets of the only row or None. stages: the stage
    of each step."""
    by_batch = (s.stages[stage] for stage in stages for _ in range(micro_batches(s)))
    of_order, of_rows = itertools.tee(by_batch)
    for stage, ids in zip(of_rows, training_order(s, source, of_order)):
        bounds = None
        if s.DOCUMENT_ATTENTION:
            bounds = on_device(segment_bounds(ids[:-1], s.BOS_ID, stage.SEGMENT_LIMIT), device)
        row = on_device(ids, device)
        yield row[:-1].view(-1, row_length(stage)), row[1:].view(-1, row_length(stage)), bounds
