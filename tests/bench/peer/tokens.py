"""Training tokens in train_gpt's order: from shards, or the very stream of synthetic:zipf."""
import pathlib
import sys

import numpy as np
import torch

from peer.settings import micro_batches


class Shards:
    """All training tokens in a row, shard after shard, wrapping for ever."""

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
    """Number `index` of the sequence that begins at `key`; wraps at 64 bits."""
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
    """synthetic:zipf token for token: a hash of the position draws from Walker's alias table of the
    weights 1 / (rank + 3)."""

    lengths = [10_000_000_000]

    def __init__(self, vocabulary, seed):
        self.key = key_of(seed, "train")
        ids = np.arange(vocabulary)
        draws = splitmix64(key_of(seed, "ids"), np.arange(vocabulary + 1)) >> np.uint64(32)
        for i in range(vocabulary, 1, -1):
            other = int(draws[i]) * i >> 32
            ids[[i - 1, other]] = ids[[other, i - 1]]
        shares = 1 / (np.arange(vocabulary) + 3.0)
        # A running sum, whose last bits are those of a loop.
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


def stream_order(source, tokens):
    begin = 0
    while True:
        yield source.read(begin, tokens + 1)
        begin += tokens + 1


def strided_order(source, tokens, repeat_first):
    starts = np.cumsum([0] + source.lengths)
    if repeat_first:
        yield source.read(0, tokens + 1)
    while True:
        for start, length in zip(starts.tolist(), source.lengths):
            offset = 0
            while offset + tokens + 1 <= length:
                yield source.read(start + offset, tokens + 1)
                offset += tokens


def open_source(s):
    if s.DATA_PATH == "synthetic:zipf":
        return ZipfTokens(s.VOCAB_SIZE, s.SEED)
    return Shards(s.DATA_PATH)


def batches(s, source, device):
    """Endless micro-batches from the beginning: inputs and targets [B, T]."""
    tokens = s.TRAIN_BATCH_TOKENS // micro_batches(s)
    if s.LOADER_ORDER == "stream":
        order = stream_order(source, tokens)
    else:
        order = strided_order(source, tokens, s.RECORD_QUIRKS)
    for row in order:
        row = torch.from_numpy(row)
        if device.type == "cuda":
            row = row.pin_memory().to(device, non_blocking=True)
        yield row[:-1].view(-1, s.TRAIN_SEQ_LEN), row[1:].view(-1, s.TRAIN_SEQ_LEN)
