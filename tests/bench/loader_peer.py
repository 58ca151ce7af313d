#!/usr/bin/env python3
"""Read the training shards with numpy and PyTorch's DataLoader, as a baseline for the loader.

    loader_peer.py SHARD_FOLDER [--micro-batch-tokens 98304] [--seq-len 2048] [--batches 1000]

Uses the two ways in which training scripts read such files, each with one worker process:
  sequences      a Dataset of sequences; the DataLoader stacks them to micro-batches
  micro_batches  an IterableDataset that cuts whole micro-batches, which the DataLoader passes on
Both return inputs and targets as int64, [sequences, seq_len] each. 50 micro-batches are read before the clock
starts. Ends with one line of JSON: tokens per second of each.
"""
import argparse
import json
import pathlib
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

HEADER_BYTES = 1024
WARMUP_BATCHES = 50  # until the worker process has started and filled its queue


def map_shards(folder):
    paths = sorted(pathlib.Path(folder).glob("fineweb_train_*.bin"))
    if not paths:
        sys.exit(f"{folder}: no fineweb_train_*.bin")
    return [np.memmap(path, dtype="<u4" if is_wide(path) else "<u2", mode="r", offset=HEADER_BYTES) for path in paths]


def is_wide(path):
    return np.fromfile(path, dtype="<i4", count=1)[0] == 20240801


def pieces(shards, size):
    """Returns (shard, first token) of every piece of `size` + 1 tokens."""
    return [(s, i * size) for s, shard in enumerate(shards) for i in range((len(shard) - 1) // size)]


def inputs_and_targets(tokens):
    tokens = torch.from_numpy(tokens.astype(np.int64))
    return tokens[:-1], tokens[1:]


class Sequences(Dataset):
    def __init__(self, shards, seq_len, count):
        self.shards, self.seq_len, self.count = shards, seq_len, count
        self.pieces = pieces(shards, seq_len)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        shard, begin = self.pieces[index % len(self.pieces)]
        return inputs_and_targets(self.shards[shard][begin : begin + self.seq_len + 1])


class MicroBatches(IterableDataset):
    def __init__(self, shards, tokens, seq_len, count):
        self.shards, self.tokens, self.seq_len, self.count = shards, tokens, seq_len, count
        self.pieces = pieces(shards, tokens)

    def __iter__(self):
        for index in range(self.count):
            shard, begin = self.pieces[index % len(self.pieces)]
            x, y = inputs_and_targets(self.shards[shard][begin : begin + self.tokens + 1])
            yield x.view(-1, self.seq_len), y.view(-1, self.seq_len)


def tokens_per_s(loader, batches, tokens):
    iterator = iter(loader)
    for _ in range(WARMUP_BATCHES):
        x, y = next(iterator)
        assert x.numel() == tokens and x.shape == y.shape and x[-1, 1] == y[-1, 0]
    began = time.perf_counter()
    for _ in range(batches):
        x, y = next(iterator)
        x[0, 0].item()
    return batches * tokens / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="SHARD_FOLDER")
    parser.add_argument("--micro-batch-tokens", type=int, default=98304)
    parser.add_argument("--seq-len", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=1000)
    args = parser.parse_args()
    tokens, seq_len, batches = args.micro_batch_tokens, args.seq_len, args.batches
    if tokens % seq_len:
        parser.error(f"--micro-batch-tokens: expected a multiple of --seq-len {seq_len}, found {tokens}")

    shards = map_shards(args.folder)
    if not pieces(shards, tokens):
        sys.exit(f"{args.folder}: no shard holds a micro-batch of {tokens} tokens")
    count = WARMUP_BATCHES + batches
    sequences = Sequences(shards, seq_len, count * (tokens // seq_len))
    micro_batches = MicroBatches(shards, tokens, seq_len, count)
    loaders = {
        "sequences": DataLoader(sequences, batch_size=tokens // seq_len, num_workers=1),
        "micro_batches": DataLoader(micro_batches, batch_size=None, num_workers=1),
    }
    result = {name: tokens_per_s(loader, batches, tokens) for name, loader in loaders.items()}
    for name, speed in result.items():
        print(f"{name:13} {speed / 1e6:8.1f} M tokens/s")
    print(json.dumps({f"{name}_tokens_per_s": round(speed) for name, speed in result.items()}))


if __name__ == "__main__":
    main()
