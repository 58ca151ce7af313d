#!/usr/bin/env python3
"""usage: attention_picture.py > docs/documents.svg

Draws which keys a query sees in a row of tokens: with causal attention, within documents, and with a window.
"""
from picture import svg, text

DOCUMENTS = (5, 9, 4, 6)  # lengths in tokens; the first document began in the previous row
LIMIT, WINDOW = 6, 3  # SEGMENT_LIMIT, ATTENTION_WINDOW
CELL, TOP, LEFT, GAP = 10, 62, 34, 46
TOKENS = sum(DOCUMENTS)


def segment_starts(limit):
    """Returns for each token the position at which its segment begins."""
    starts, at = [], 0
    for length in DOCUMENTS:
        starts += [at + i - i % limit for i in range(length)]
        at += length
    return starts


def document_of():
    return [number for number, length in enumerate(DOCUMENTS) for _ in range(length)]


def panel(left, title, settings, first_visible):
    """first_visible: for each query, the first key that it sees."""
    yield text(left, 24, title)
    yield text(left, 40, settings, "faint")
    for token, document in enumerate(document_of()):
        yield (f'<rect class="fill{document}" x="{left + token * CELL}" y="{TOP - 10}" width="{CELL - 1}"'
               f' height="5"/>')
        yield (f'<rect class="fill{document}" x="{left - 10}" y="{TOP + token * CELL}" width="5"'
               f' height="{CELL - 1}"/>')
    for query, first in enumerate(first_visible):
        colour = document_of()[query]
        for key in range(first, query + 1):
            yield (f'<rect class="fill{colour}" x="{left + key * CELL}" y="{TOP + query * CELL}"'
                   f' width="{CELL - 1}" height="{CELL - 1}"/>')
    side = TOKENS * CELL
    yield f'<rect class="line" fill="none" x="{left - 1}" y="{TOP - 1}" width="{side + 1}" height="{side + 1}"/>'


def main():
    whole = [0] * TOKENS
    documents = segment_starts(TOKENS)
    segments = segment_starts(LIMIT)
    windows = [max(start, query - WINDOW + 1) for query, start in enumerate(segments)]
    panels = (
        ("a row", "DOCUMENT_ATTENTION=0", whole),
        ("documents", "DOCUMENT_ATTENTION=1", documents),
        ("their segments", f"SEGMENT_LIMIT={LIMIT}", segments),
        ("a window", f"ATTENTION_WINDOW={WINDOW}", windows),
    )
    step = TOKENS * CELL + GAP
    parts = [part for place, arguments in enumerate(panels) for part in panel(LEFT + place * step, *arguments)]
    bottom = TOP + TOKENS * CELL
    parts.append(text(LEFT, bottom + 20, "across: keys, down: queries; a colour is a document", "faint"))
    title = "Which keys a query sees: all before it in the row, its document's, its segment's, a window's"
    print(svg(LEFT + len(panels) * step - GAP + 20, bottom + 32, title, parts), end="")


if __name__ == "__main__":
    main()
