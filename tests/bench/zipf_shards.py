#!/usr/bin/env python3
"""usage: zipf_shards.py FOLDER VOCABULARY TRAIN_TOKENS VAL_TOKENS [SHARD_TOKENS]

Writes training and validation shards of random tokens whose frequencies follow Zipf's law, for runs in which only
speed and a falling loss matter. Writes one shard per split, or shards of SHARD_TOKENS, the last one with the rest. Ids of a
VOCABULARY above 65536 have 32 bits.
"""
import pathlib
import sys

import numpy as np


def write_shard(path, tokens, wide):
    header = np.zeros(256, dtype="<i4")
    header[:3] = *((20240801, 7) if wide else (20240520, 1)), len(tokens)
    path.write_bytes(header.tobytes() + tokens.astype("<u4" if wide else "<u2").tobytes())


def main():
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    vocabulary, train_tokens, val_tokens, *shard_tokens = map(int, sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1337)
    # The ranking of tokens by frequency is random, as in a real tokenizer.
    ranked = rng.permutation(vocabulary)
    ends = np.cumsum(1 / (np.arange(vocabulary) + 3))
    for name, count in (("train", train_tokens), ("val", val_tokens)):
        size = shard_tokens[0] if shard_tokens else max(count, 1)
        for number, start in enumerate(range(0, count, size)):
            uniform = rng.random(min(size, count - start)) * ends[-1]
            ranks = np.searchsorted(ends, uniform, side="right")
            write_shard(folder / f"fineweb_{name}_{number:06}.bin", ranked[ranks], vocabulary > 65536)


if __name__ == "__main__":
    main()
