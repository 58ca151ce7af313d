#!/usr/bin/env python3
"""usage: trace_picture.py TRACE.json OUT.svg [--step N | --from-ms A --to-ms B]

Draws a trace of train_gpt (Chrome's format, as PyTorch's profiler writes it) as lanes over time: the reads of each
prefetch worker, the phases of the training thread, the work of each GPU stream. Arrows follow a batch from its read
to its copy and its forward pass. Times count from the first event drawn in any lane; --step N shows the N-th training
step of the trace, from 1. Requires only Python's standard library.
"""
import argparse
import bisect
import collections
import json
import math
import pathlib
import re
import sys
from xml.sax.saxutils import escape

EXIT_USAGE, EXIT_BAD_DATA, EXIT_MISSING, EXIT_CREATE = 64, 65, 66, 73

WIDTH, LEFT, RIGHT = 1200, 165, 1185  # the picture's width, and the ends of the time axis
TOP, LANE, BAR = 62, 58, 30  # y of the first lane, pitch of lanes, height of a block
MAX_ARROWS, MAX_STEP_LINES = 200, 60  # more would clutter the picture
LETTER = 7  # width of a letter of 12 px text, rounded up

PHASES = ("batch", "forward", "backward", "reduce", "grad_clip", "optimizer")
READER, HOST, GPU = range(3)  # from top to bottom
STYLE = {  # kind of block: legend, colour
    "read": ("read from shards", "#5fb3d9"),
    "batch": ("batch", "#ffd166"),
    "forward": ("forward", "#90be6d"),
    "backward": ("backward", "#f4a261"),
    "reduce": ("reduce", "#e5989b"),
    "grad_clip": ("grad_clip", "#cdb4db"),
    "optimizer": ("optimizer", "#8fd3c8"),
    "matrix": ("matrix products, attention", "#3a6ea5"),
    "other": ("other GPU work", "#b4bfca"),
    "copy": ("copy to the GPU", "#d62828"),
    "collective": ("collective", "#8e3bc9"),
}
# Kinds that take precedence in a pixel, and their minimum width.
LEAST_WIDTH = {"copy": 2.0, "collective": 1.5}
# Kernel names of cuBLAS, CUTLASS, cuDNN and FlashAttention.
MATRIX = re.compile(r"gemm|gemv|cutlass|nvjet|xmma|splitk|fmha|flash|attention|sdpa|attn", re.IGNORECASE)

Slice = collections.namedtuple("Slice", "begin end kind")
Point = collections.namedtuple("Point", "track at")  # one end of an arrow


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def classify(event):
    """Returns (section, kind) of an event to draw, else None."""
    category, name = event.get("cat"), event.get("name", "")
    if category == "prefetch" and name == "read":
        return READER, "read"
    if category == "user_annotation" and name in PHASES:
        return HOST, name
    if category == "kernel":
        if "nccl" in name.lower():
            return GPU, "collective"
        return GPU, "matrix" if MATRIX.search(name) else "other"
    if category in ("gpu_memcpy", "gpu_memset"):
        return GPU, "copy" if "HtoD" in name else "other"
    return None


class Trace:
    """The parts of a trace that are drawn. Times are in ms since the first slice."""

    def __init__(self, events):
        self.lanes = collections.defaultdict(list)  # (section, pid, tid) → slices
        self.steps = []  # (begin, end)
        self.flows = collections.defaultdict(list)  # batch → points
        self.names = {}  # (pid, tid) → thread
        for event in events:
            self.add(event)
        slices = [piece for lane in self.lanes.values() for piece in lane]
        if not slices:
            raise Failure(EXIT_BAD_DATA, "no reads, phases or GPU work in this trace")
        self.start = min(piece.begin for piece in slices)
        self.end = max(piece.end for piece in slices) - self.start
        self.rebase()

    def add(self, event):
        phase = event.get("ph")
        if phase == "M" and event.get("name") == "thread_name":
            self.names[event["pid"], event["tid"]] = str(event["args"]["name"])
        elif phase in ("s", "t", "f") and "batch" in (event.get("cat"), event.get("name")):
            self.flows[event["id"]].append(Point((event["pid"], event["tid"]), event["ts"] / 1000))
        elif phase == "X":
            self.add_slice(event)

    def add_slice(self, event):
        begin = event["ts"] / 1000
        end = begin + event.get("dur", 0) / 1000
        if not math.isfinite(end):
            raise ValueError(f"an event at {begin:g} ms that ends at {end:g} ms")
        if event.get("cat") == "user_annotation" and event.get("name") == "train_step":
            self.steps.append((begin, end))
        found = classify(event)
        if found:
            section, kind = found
            self.lanes[section, event["pid"], event["tid"]].append(Slice(begin, end, kind))

    def rebase(self):
        for key, lane in self.lanes.items():
            moved = (Slice(begin - self.start, end - self.start, kind) for begin, end, kind in lane)
            self.lanes[key] = sorted(moved)
        self.steps = sorted((begin - self.start, end - self.start) for begin, end in self.steps)
        for batch, points in self.flows.items():
            moved = [Point(track, at - self.start) for track, at in points]
            self.flows[batch] = sorted(moved, key=lambda point: point.at)

    def title(self, key):
        section, pid, tid = key
        if section == HOST:
            return "training thread"
        if section == GPU:
            return f"GPU {pid} stream {tid}"
        return self.names.get((pid, tid), f"reader {tid}")

    def window(self, given):
        if given.step is None:
            begin = 0.0 if given.from_ms is None else given.from_ms
            return begin, self.end if given.to_ms is None else given.to_ms
        if not 1 <= given.step <= len(self.steps):
            raise Failure(EXIT_USAGE, f"--step {given.step}: the trace has {len(self.steps)} train_step")
        return self.steps[given.step - 1]


def read_trace(path):
    try:
        trace = json.loads(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise Failure(EXIT_MISSING, f"cannot read {path} ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise Failure(EXIT_BAD_DATA, f"{path} is not JSON ({error})") from error
    try:
        return Trace(trace["traceEvents"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Failure(EXIT_BAD_DATA, f"{path} is not a Chrome trace ({error!r})") from error
    except Failure as failure:
        raise Failure(failure.code, f"{path}: {failure}") from failure


def sort_key(lane_key):
    """Sorts numbers by value; a pid or tid may also be a word."""
    return [(0, part) if isinstance(part, (int, float)) else (1, str(part)) for part in lane_key]


def busy_share(slices, begin, end):
    busy, reached = 0.0, begin
    for piece in slices:
        busy += max(0.0, min(piece.end, end) - max(piece.begin, reached))
        reached = max(reached, piece.end)
    return busy / (end - begin)


def blocks(spans):
    """Merges (x, x, kind) spans into what a lane shows: in each pixel the kind that fills most of it, with spans
    of one kind joined if the gap is less than a pixel."""
    pixels = {}
    for left, right, kind in spans:
        for pixel in range(int(left), max(int(left) + 1, math.ceil(right))):
            first, last = max(left, pixel), min(right, pixel + 1)
            entry = pixels.setdefault(pixel, [first, last, collections.Counter()])
            entry[:2] = min(entry[0], first), max(entry[1], last)
            entry[2][kind] += math.inf if kind in LEAST_WIDTH else last - first
    joined = []
    for _, (first, last, shares) in sorted(pixels.items()):
        kind = max(shares, key=shares.get)
        if joined and joined[-1][2] == kind and first - joined[-1][1] < 1:
            joined[-1][1] = last
        else:
            joined.append([first, last, kind])
    return joined


def text(x, y, words, **attributes):
    extra = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{escape(words)}</text>'


def tick_step(length):
    """Returns 1, 2 or 5 times a power of ten, for 5 to 12 ticks."""
    power = 10 ** math.floor(math.log10(length / 5))
    return next(power * factor for factor in (5, 2, 1) if length / (power * factor) >= 5)


class Picture:
    def __init__(self, trace, begin, end, name):
        self.trace, self.begin, self.end = trace, begin, end
        self.scale = (RIGHT - LEFT) / (end - begin)
        self.title = f"{name}, {begin:.2f} to {end:.2f} ms"
        self.rows = {}  # lane → y of its blocks
        for key in sorted(trace.lanes, key=sort_key):
            if any(piece.end > begin and piece.begin < end for piece in trace.lanes[key]):
                self.rows[key] = TOP + LANE * len(self.rows)
        self.bottom = TOP + LANE * len(self.rows) - (LANE - BAR) + 8
        self.kinds = set()
        self.arrow_count = 0

    def x(self, at):
        return LEFT + (at - self.begin) * self.scale

    def clipped(self, key):
        for begin, end, kind in self.trace.lanes[key]:
            if end > self.begin and begin < self.end:
                yield max(self.x(begin), LEFT), min(self.x(end), RIGHT), kind

    def lane(self, key):
        y = self.rows[key]
        share = busy_share(self.trace.lanes[key], self.begin, self.end)
        yield f'<rect x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{BAR}" fill="#f3f4f6"/>'
        yield text(10, y + 13, self.trace.title(key)[: (LEFT - 15) // LETTER], font_weight="bold")
        yield text(10, y + 28, f"busy {100 * share:.1f} %", fill="#666")
        shown = collections.defaultdict(list)
        for block in blocks(self.clipped(key)):
            shown[block[2]].append(block)
        for kind in sorted(shown, key=lambda kind: kind in LEAST_WIDTH):
            yield self.bars(y, kind, shown[kind])
            if key[0] == HOST:
                yield from self.captions(y, shown[kind])

    def bars(self, y, kind, found):
        """One thick dashed line for all blocks of a kind: rectangles would be five times as long."""
        self.kinds.add(kind)
        least = LEAST_WIDTH.get(kind, 0.3)
        d = "".join(f"M{left:.1f} {y + BAR / 2:g}h{max(right - left, least):.1f}" for left, right, _ in found)
        return f'<path class="{kind}" stroke="{STYLE[kind][1]}" stroke-width="{BAR}" d="{d}"/>'

    def captions(self, y, found):
        for left, right, kind in found:
            if right - left > LETTER * len(kind) + 4:
                yield text((left + right) / 2, y + 19, kind, text_anchor="middle")

    def end_of_arrow(self, point):
        """Returns (y, begin, end) of the slice around a point on a drawn lane, else None."""
        for key, y in self.rows.items():
            if key[1:] == point.track:
                lane = self.trace.lanes[key]
                piece = lane[max(0, bisect.bisect(lane, (point.at, math.inf)) - 1)]
                if piece.begin <= point.at <= piece.end:
                    return y, piece.begin, piece.end
        return None

    def arrows(self):
        drawn = []
        for points in self.trace.flows.values():
            for a, b in zip(points, points[1:]):
                if max(a.at, b.at) >= self.begin and min(a.at, b.at) <= self.end:
                    drawn += self.arrow(a, b)
        self.arrow_count = len(drawn)
        return drawn if len(drawn) <= MAX_ARROWS else []

    def arrow(self, a, b):
        leaving, arriving = self.end_of_arrow(a), self.end_of_arrow(b)
        if not leaving or not arriving or leaving[0] == arriving[0]:
            return
        # From the end of one slice to the beginning of the other, if they do not overlap.
        x1, x2 = (leaving[2], arriving[1]) if leaving[2] <= arriving[1] else (a.at, b.at)
        x1, x2 = self.x(x1), self.x(x2)
        down = leaving[0] < arriving[0]
        y1, y2 = leaving[0] + (BAR if down else 0), arriving[0] + (0 if down else BAR)
        bend = 14 if down else -14
        yield (
            f'<path class="arrow" d="M{x1:.1f} {y1}C{x1:.1f} {y1 + bend} {x2:.1f} {y2 - bend} {x2:.1f} {y2}"'
            ' marker-end="url(#head)"/>'
        )

    def axis(self):
        step = tick_step(self.end - self.begin)
        digits = max(0, -math.floor(math.log10(step)))
        for number in range(math.ceil(self.begin / step), math.floor(self.end / step) + 1):
            x = self.x(number * step)
            yield f'<path stroke="#ddd" d="M{x:.1f} {TOP - 8}V{self.bottom + 5}"/>'
            yield text(x, self.bottom + 19, f"{number * step:.{digits}f}", text_anchor="middle")
        yield f'<path stroke="#222" d="M{LEFT} {self.bottom}H{RIGHT}"/>'
        yield text(LEFT - 24, self.bottom + 19, "ms", text_anchor="end")

    def step_lines(self):
        inside = [
            (number, begin, end)
            for number, (begin, end) in enumerate(self.trace.steps, 1)
            if end > self.begin and self.begin <= begin < self.end
        ]
        if len(inside) > MAX_STEP_LINES:
            return
        for number, begin, end in inside:
            x, words = self.x(begin), f"step {number}"
            yield f'<path stroke="#888" stroke-dasharray="3 3" d="M{x:.1f} {TOP - 22}V{self.bottom}"/>'
            if (end - begin) * self.scale > LETTER * len(words):
                yield text(x + 4, TOP - 13, words, fill="#666")

    def legend(self):
        """Draws the legend in as many rows as it needs; returns (height, elements)."""
        x, y, elements = LEFT, self.bottom + 36, []
        entries = [STYLE[kind] for kind in STYLE if kind in self.kinds]
        if self.arrow_count:
            hidden = f" ({self.arrow_count} not drawn)" if self.arrow_count > MAX_ARROWS else ""
            entries.append((f"way of a batch{hidden}", "#222"))
        for words, colour in entries:
            length = 18 + LETTER * len(words) + 16
            if x + length > RIGHT:
                x, y = LEFT, y + 20
            elements.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>')
            elements.append(text(x + 18, y + 11, words))
            x += length
        return y + 26, elements

    def draw(self):
        lanes = [element for key in self.rows for element in self.lane(key)]
        arrows = self.arrows()
        height, legend = self.legend()
        plot = f'<rect x="{LEFT}" y="0" width="{RIGHT - LEFT}" height="{height}"/>'
        head = '<path d="M0 0L6 3L0 6z" fill="#222"/>'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
                f' viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
                f'<defs><clipPath id="plot">{plot}</clipPath><marker id="head" markerWidth="6" markerHeight="6"'
                f' refX="6" refY="3" orient="auto" markerUnits="userSpaceOnUse">{head}</marker></defs>',
                f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
                text(10, 22, self.title, font_size=15, font_weight="bold"),
                *self.axis(),
                *lanes,
                *self.step_lines(),
                '<g clip-path="url(#plot)" fill="none" stroke="#222" stroke-opacity=".75">',
                *arrows,
                "</g>",
                *legend,
                "</svg>\n",
            ]
        )


def draw(given):
    trace = read_trace(given.trace)
    begin, end = trace.window(given)
    if not begin < end:
        raise Failure(EXIT_USAGE, f"no time between {begin:g} and {end:g} ms")
    picture = Picture(trace, begin, end, pathlib.Path(given.trace).name)
    if not picture.rows:
        within = f"the trace goes from 0 to {trace.end:.2f} ms"
        raise Failure(EXIT_USAGE, f"nothing happens between {begin:g} and {end:g} ms; {within}")
    try:
        pathlib.Path(given.out).write_text(picture.draw(), encoding="utf-8")
    except OSError as error:
        raise Failure(EXIT_CREATE, f"cannot write {given.out} ({error.strerror})") from error


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE.json")
    parser.add_argument("out", metavar="OUT.svg")
    parser.add_argument("--step", type=int, help="of the trace, from 1")
    parser.add_argument("--from-ms", type=float)
    parser.add_argument("--to-ms", type=float)
    given = parser.parse_args(arguments)
    if given.step is not None and (given.from_ms, given.to_ms) != (None, None):
        parser.error("either --step or --from-ms and --to-ms")
    return given


def main(arguments):
    try:
        draw(parse(arguments))
    except SystemExit as stop:
        return EXIT_USAGE if stop.code else 0
    except Failure as failure:
        print(f"ERROR exit={failure.code}: {failure}", file=sys.stderr)
        return failure.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
