"""Reads what a measured run left: train_gpt's metrics.jsonl and log, or the last line of torch_compile_peer.py."""
import collections
import datetime
import json
import re
import statistics

SETTLED = 4  # the first steps choose kernels and fill the allocator


def means(step_ms, period):
    """Returns the means of `period` successive steps each, for steps that differ; an incomplete period is left out."""
    return [statistics.mean(step_ms[i : i + period]) for i in range(0, len(step_ms) - period + 1, period)]


def settled_s(first_step_s, step_ms):
    """Returns when the settled steps begin, in seconds from the launch."""
    return first_step_s + sum(step_ms[1:SETTLED]) / 1000


class TrainRun:
    """Losses of all steps, ms and timing events of the settled steps, seconds to the first step, peak MiB.

    `metrics`: NAME.jsonl, a run's metrics.jsonl; its log is NAME.log. The peak is None on a CPU. `period`: steps between
    updates of all parameters (ADAM_EVERY); the ms of a step are means over so many steps, since they differ.
    """

    def __init__(self, metrics, period=1):
        events = collections.defaultdict(list)
        for event in map(json.loads, metrics.read_text().splitlines()):
            events[event["event"]].append(event)
        clock = [0.0] + [event["train_time_ms"] for event in events["train"]]
        self.losses = [event["train_loss"] for event in events["train"]]
        # A step is logged after the next one is launched, the last one at once: its time is excluded.
        steps = [b - a for a, b in zip(clock, clock[1:-1])]
        self.steps = means(steps[SETTLED:], period)
        self.phases = events["timing"][SETTLED:]
        self.first_s = events["first_step"][0]["ms_since_launch"] / 1000
        self.settled_s = settled_s(self.first_s, steps)
        self.tokens_per_step = events["start"][0]["tokens_per_step"]
        self.flops_per_token = events["train"][-1]["flops_per_token"]
        self.val_losses = [event["val_loss"] for event in events["val"]]
        # Seconds of each score of the final weights, by name.
        self.scored_s = {event["name"]: event["eval_time_ms"] / 1000 for event in events["final"]}
        # Peak memory of the GPU, or of the process on a CPU; empty if the run did not finish.
        self.peak_bytes = [event["peak_allocated_bytes"] for event in events["memory"]]
        log = metrics.with_suffix(".log").read_text()
        memory = re.search(r"peak memory allocated: (\d+) MiB", log)
        self.memory = int(memory.group(1)) if memory else None
        self.padded = re.findall(r"^pad_(.*)$", log, re.M)
        # GRAD_ACCUM_STEPS=auto logs into how many parts it split a micro-batch, and so the sequences per pass.
        cut = re.search(r"^micro_batch:(\d+) sequences parts:(\d+)", log, re.MULTILINE)
        self.parts = int(cut.group(2)) if cut else None
        self.micro_batch = int(cut.group(1)) // self.parts if cut else None


class PeerRun:
    """The last line of torch_compile_peer.py's log, with the fields of a TrainRun and its `period`."""

    flops_per_token = tokens_per_step = parts = micro_batch = None

    def __init__(self, log, period=1):
        result = json.loads(log.read_text().splitlines()[-1])
        self.losses, self.steps = result["losses"], means(result["step_ms"][SETTLED:], period)
        self.memory, self.first_s = round(result["peak_memory_mib"]), result["first_step_s"]
        self.settled_s = settled_s(self.first_s, result["step_ms"])
        self.phases, self.padded, self.scored_s = [], [], {}


class PowerLog:
    """Power and clock of a GPU. Reads NAME.power: the program's launch in seconds since the epoch, then nvidia-smi's
    lines of local time, W and MHz."""

    def __init__(self, path):
        launch, *lines = path.read_text().splitlines()
        self.samples = []
        for line in lines:
            try:
                time, watts, mhz = line.split(",")
                moment = datetime.datetime.strptime(time.strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp()
                self.samples.append((moment - float(launch), float(watts), float(mhz)))
            except ValueError:  # the last line may be incomplete, and a GPU may not report its power
                continue

    def between(self, begin_s, end_s):
        """Returns the means of watts and MHz between two times in seconds from the launch; None without samples."""
        inside = [(watts, mhz) for moment, watts, mhz in self.samples if begin_s <= moment <= end_s]
        return tuple(map(statistics.mean, zip(*inside))) if inside else None
