"""The settings that change in the course of a run, the stages between their changes, and what follows from them. A begin
of a stage is a step, or below 1 a share of the schedule."""
import argparse
import itertools
import math
import sys
import typing

import torch

SCHEDULED = {"TRAIN_BATCH_TOKENS": int, "SEGMENT_LIMIT": int, "SHORT_WINDOW": int, "LONG_WINDOW": int, "LR_SCALE": float}
RAMPED = ("MTP_WEIGHTS", "PREFIX_WEIGHT")


class Ramps(typing.NamedTuple):
    """Numbers that change linearly from a first to a last value between two begins."""

    numbers: tuple
    begin: float
    end: float

    def at(self, step, steps):
        begin, end = (bound if bound < 1 else min(bound / steps, 1.0) for bound in (self.begin, self.end))
        place = min((step / steps - begin) / (end - begin), 1.0) if end > begin else 0.0
        return [first + (last - first) * place for first, last in self.numbers]


def texts_by_begin(text):
    """Parses "3,7@735,11@1470" to {begin: text}."""
    entries = (entry.partition("@") for entry in str(text).split(","))
    return {float(begin or 0): value for value, _, begin in entries}


def ramps_by_begin(text):
    """Parses "1/0.25:0,1@423", numbers of which those with two values change within their stage, to {begin: Ramps}."""
    texts = texts_by_begin(text)
    found = {}
    for (begin, numbers), end in zip(texts.items(), [*list(texts)[1:], math.inf]):
        pairs = (number.partition(":") for number in numbers.split("/"))
        found[begin] = Ramps(tuple((float(first), float(last or first)) for first, _, last in pairs), begin, end)
    return found


def make_stages(s):
    """Returns the settings of each stage, in order, with one value of each setting that changes, and `begin`."""
    schedules = {name: ramps_by_begin(getattr(s, name)) for name in RAMPED}
    for name, kind in SCHEDULED.items():
        schedules[name] = {begin: kind(text) for begin, text in texts_by_begin(getattr(s, name)).items()}
    begins = sorted(set(itertools.chain.from_iterable(schedules.values())))
    if begins[-1] >= 1 and any(0 < begin < 1 for begin in begins):
        sys.exit("settings that change at steps beside others that change at shares of the run are not in this script")
    stages = []
    for begin in begins:
        values = {name: own[max(b for b in own if b <= begin)] for name, own in schedules.items()}
        stages.append(argparse.Namespace(**(vars(s) | values), begin=begin))
    return stages


def has_prefix(stage):
    """Whether the prefix of the next token is a target at some step of a stage."""
    return any(map(any, stage.PREFIX_WEIGHT.numbers))


def windows(stage):
    """Returns the short and the long window of a stage: how many tokens before its own a query sees."""
    return stage.WINDOW_BLOCK * stage.SHORT_WINDOW, stage.WINDOW_BLOCK * stage.LONG_WINDOW


def rotations(s, head_dim):
    """Returns of each stage the scale of attention's scores and the frequencies of the pairs that turn, a quarter of a
    head's channels. When the long window grows, YaRN (Peng et al. 2023) slows the rotation and raises the scale."""
    scale = s.ATTENTION_SCALE or head_dim**-0.5
    frequencies = torch.tensor(1 / s.ROPE_BASE) ** torch.linspace(0, 1, head_dim // 4)
    found, before = [], windows(s.stages[0])[1]
    for stage in s.stages:
        window = windows(stage)[1]
        if s.WINDOW_YARN and window != before:
            ratio = before / window
            kept = ((before * frequencies / (2 * math.pi) - 1) / 31).clamp(0, 1)
            frequencies = frequencies * torch.lerp(torch.tensor(ratio), torch.tensor(1.0), kept)
            scale *= 1 + 0.2 * math.log(1 / ratio)
        before = window
        found.append((scale, frequencies))
    return found
