#!/usr/bin/env python3
"""usage: zipf_shards.py FOLDER VOCABULARY TRAIN_TOKENS VAL_TOKENS

Writes one training and one validation shard of random tokens whose frequencies follow Zipf's law:
where only speed and a falling loss matter, they stand in for a vocabulary without text at hand.
"""
import pathlib
import sys

import numpy as np


def write_shard(path, tokens):
    header = np.zeros(256, dtype="<i4")
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + tokens.astype("<u2").tobytes())


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    vocabulary, train_tokens, val_tokens = map(int, sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1337)
    # Which token is the how-many-th most frequent is random, as in a real tokenizer.
    ranked = rng.permutation(vocabulary)
    ends = np.cumsum(1 / (np.arange(vocabulary) + 3))
    for name, count in (("train", train_tokens), ("val", val_tokens)):
        ranks = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
        write_shard(folder / f"fineweb_{name}_000000.bin", ranked[ranks])


if __name__ == "__main__":
    main()
