"""The orders in which train_gpt reads its training tokens. Each yields a micro-batch's tokens and the one after them."""
import itertools
import sys

import numpy as np

from peer.settings import micro_batches, row_length

SEARCHED = 1 << 20  # tokens of a shard that are searched for documents at once


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


def documents_order(source, tokens, bos_id):
    """Rows from each shard's first document on; tokens after the last whole row are dropped."""
    starts = np.cumsum([0] + source.lengths).tolist()
    while True:
        for start, length in zip(starts, source.lengths):
            offset = first_document(source, start, length, bos_id)
            while offset + tokens + 1 <= length:
                yield source.read(start + offset, tokens + 1)
                offset += tokens + 1


def first_document(source, start, length, bos_id):
    found = np.flatnonzero(source.read(start, min(length, SEARCHED)) == bos_id)
    if not len(found):
        sys.exit(f"no document begins (BOS_ID={bos_id}) in the first 2^20 tokens of a shard")
    return int(found[0])


def documents_of(source, start, length, bos_id):
    """Yields (begin, end) of each document of a shard; tokens before the first one belong to none."""
    begin = None
    for offset in range(0, length, SEARCHED):
        ids = source.read(start + offset, min(SEARCHED, length - offset))
        for found in (np.flatnonzero(ids == bos_id) + start + offset).tolist():
            if begin is not None:
                yield begin, found
            begin = found
    if begin is not None:
        yield begin, start + length


def aligned_row(source, documents, tokens, limit):
    """Returns a row of tokens + 1 from the beginnings of the next documents, or None if they do not fill it; what the limit
    or the end of the row cuts off a document is skipped."""
    pieces, held = [], 0
    for begin, end in documents:
        end = min(end, begin + limit, begin + tokens + 1 - held)
        pieces.append((begin, end))
        held += end - begin
        if held == tokens + 1:
            first = pieces[0][0]
            span = source.read(first, end - first)
            return np.concatenate([span[a - first : b - first] for a, b in pieces])
    return None


def aligned_order(source, bos_id, round_rows, shapes):
    """Rows that begin with a document, in rounds of one shard each: a shard's last rows, if fewer, are dropped. shapes:
    (tokens, limit) of each row."""
    starts = np.cumsum([0] + source.lengths).tolist()
    shards = (documents_of(source, *shard, bos_id) for shard in itertools.cycle(zip(starts, source.lengths)))
    documents, shapes = next(shards), iter(shapes)
    while round_shapes := list(itertools.islice(shapes, round_rows)):
        while (rows := [aligned_row(source, documents, *shape) for shape in round_shapes])[-1] is None:
            documents = next(shards)
        yield from rows


def training_order(s, source, stages):
    """Yields the micro-batches of LOADER_ORDER endlessly. stages: the settings of each one's stage."""
    tokens = s.TRAIN_BATCH_TOKENS // micro_batches(s)
    if s.LOADER_ORDER == "stream":
        return stream_order(source, tokens)
    if s.LOADER_ORDER == "documents":
        return documents_order(source, tokens, s.BOS_ID)
    if s.LOADER_ORDER == "aligned":
        # The scripts have rounds of as many rows as ranks, here one.
        shapes = ((row_length(stage), stage.SEGMENT_LIMIT) for stage in stages)
        return aligned_order(source, s.BOS_ID, 1 if s.RECORD_QUIRKS else micro_batches(s), shapes)
    return strided_order(source, tokens, s.RECORD_QUIRKS)
