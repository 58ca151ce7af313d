#!/usr/bin/env python3
"""usage: build/train_gpt inspect --settings configs/record_1061.env | plan_picture.py > docs/recipes.svg

Draws the block calls of a forward pass of configs/record_1061.env, without and with depth recurrence: skips and lanes.
"""
from peer.settings import read_texts, settings_of, called_blocks
from picture import svg, text

LEFT, STEP, WIDTH, HEIGHT, LANE = 104, 54, 36, 50, 22  # of block calls; a lane's box is LANE high
BEND = 0.19  # height of a skip's arc relative to its length


def box(x, y, height, label, colour):
    yield f'<rect class="stroke{colour}" x="{x}" y="{y}" width="{WIDTH}" height="{height}" rx="4"/>'
    yield text(x + WIDTH / 2, y + height / 2 + 4, label, anchor="middle")


def arrow(x1, y1, x2, y2):
    return f'<line class="stroke3" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#head)"/>'


def skip(source, target, y):
    """Draws an arc from the top of one box to the top of another."""
    x1, x2 = (LEFT + place * STEP + WIDTH / 2 for place in (source, target))
    rise = 14 + BEND * (x2 - x1) * 4 / 3
    return (f'<path class="stroke1" d="M {x1 + 6:.1f} {y} C {x1 + 6:.1f} {y - rise:.1f} {x2 - 6:.1f} {y - rise:.1f}'
            f' {x2 - 6:.1f} {y - 2}" marker-end="url(#skip)"/>')


def rows_of(y, lanes):
    """Returns the y coordinates at which a block call outputs its lanes."""
    return (y + LANE / 2, y + HEIGHT - LANE / 2) if lanes else (y + HEIGHT / 2,)


def one_pass(s, recurrent, y, title):
    """Draws a pass with the tops of its boxes at y."""
    order = called_blocks(s, recurrent)
    encoder = len(order) // 2
    lanes = [place >= encoder and block >= s.PARALLEL_START_LAYER for place, block in enumerate(order)]
    looped = range(s.LOOP_START, s.LOOP_END + 1)
    yield text(LEFT - 88, y - 20 - BEND * STEP * len(order), title)
    for j in range(encoder):
        yield skip(encoder - 1 - j, encoder + j, y)
    yield text(LEFT - 88, y + HEIGHT / 2 + 4, "embedding")
    yield arrow(LEFT - 16, y + HEIGHT / 2, LEFT - 2, y + HEIGHT / 2)
    for place, block in enumerate(order):
        x, colour = LEFT + place * STEP, 2 if block in looped and s.NUM_LOOPS else 0
        if lanes[place]:
            yield from box(x, y, LANE, str(block), colour)
            yield from box(x, y + HEIGHT - LANE, LANE, str(block), colour)
        else:
            yield from box(x, y, HEIGHT, str(block), colour)
        follows = rows_of(y, lanes[place + 1]) if place + 1 < len(order) else rows_of(y, False)
        for begin in rows_of(y, lanes[place]):
            for end in follows:
                yield arrow(x + WIDTH + 1, begin, x + STEP - 2, end)
    end = LEFT + len(order) * STEP
    yield text(end + 2, y + HEIGHT / 2 + 4, "mean, head")
    for label, first, last in (("encoder", 0, encoder), ("decoder", encoder, len(order))):
        x1, x2 = LEFT + first * STEP, LEFT + last * STEP - (STEP - WIDTH)
        yield f'<line class="line" x1="{x1}" y1="{y + HEIGHT + 10}" x2="{x2}" y2="{y + HEIGHT + 10}"/>'
        yield text((x1 + x2) / 2, y + HEIGHT + 26, label, "faint", "middle")


def main():
    s = settings_of(read_texts("/dev/stdin"))
    heads = "".join(
        f'<marker id="{name}" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path class="{style}" d="M 0 0 L 6 3 L 0 6 z"/></marker>'
        for name, style in (("head", "fill3"), ("skip", "fill1")))
    calls = len(called_blocks(s, recurrent=True))
    middle = 60 + BEND * STEP * s.NUM_LAYERS
    bottom = middle + HEIGHT + 90 + BEND * STEP * calls
    parts = [f"<defs>{heads}</defs>",
             *one_pass(s, False, round(middle), f"Before recurrence: {s.NUM_LAYERS} layer calls"),
             *one_pass(s, True, round(bottom), f"In recurrence: {calls} layer calls of the same {s.NUM_LAYERS} blocks"),
             text(LEFT - 88, bottom + HEIGHT + 54, "A box is a layer call, blue where it is one of the looped"
                  " blocks; where there are two lanes, attention is above and the MLP below. Arcs are skips.", "faint")]
    title = "The layer calls of a pass of record_1061.env: with recurrence blocks 3 to 5 come three times"
    print(svg(LEFT + calls * STEP + 80, round(bottom) + HEIGHT + 70, title, parts), end="")


if __name__ == "__main__":
    main()
