"""What a run of train_gpt says of itself, for the reports here: its metrics and, beside them, its log."""
import collections
import json
import re

SETTLED = 4  # the first steps choose kernels and fill the allocator


def settled_s(first_step_s, step_ms):
    """When the settled steps begin, in seconds from the launch."""
    return first_step_s + sum(step_ms[1:SETTLED]) / 1000


class TrainRun:
    """Losses of all steps, ms and timing events of the settled ones, seconds to the first, peak MiB.

    `metrics`: NAME.jsonl, a run's metrics.jsonl; its log is NAME.log. The peak is None on a CPU.
    """

    def __init__(self, metrics):
        events = collections.defaultdict(list)
        for event in map(json.loads, metrics.read_text().splitlines()):
            events[event["event"]].append(event)
        clock = [0.0] + [event["train_time_ms"] for event in events["train"]]
        self.losses = [event["train_loss"] for event in events["train"]]
        # A step is told once the next one is launched, the last one at once: its time is not a step's.
        steps = [b - a for a, b in zip(clock, clock[1:-1])]
        self.steps = steps[SETTLED:]
        self.phases = events["timing"][SETTLED:]
        self.first_s = events["first_step"][0]["ms_since_launch"] / 1000
        self.settled_s = settled_s(self.first_s, steps)
        self.tokens_per_step = events["start"][0]["tokens_per_step"]
        self.flops_per_token = events["train"][-1]["flops_per_token"]
        self.val_losses = [event["val_loss"] for event in events["val"]]
        # Seconds that each score of the final weights took, by its name.
        self.scored_s = {event["name"]: event["eval_time_ms"] / 1000 for event in events["final"]}
        # Peak memory of the GPU or the process; none for a run that did not reach its end.
        self.peak_bytes = [event["peak_allocated_bytes"] for event in events["memory"]]
        log = metrics.with_suffix(".log").read_text()
        memory = re.search(r"peak memory allocated: (\d+) MiB", log)
        self.memory = int(memory.group(1)) if memory else None
        # GRAD_ACCUM_STEPS=auto says into how many parts it cut a micro-batch: the sequences of a pass.
        cut = re.search(r"^micro_batch:(\d+) sequences parts:(\d+)", log, re.MULTILINE)
        self.parts = int(cut.group(2)) if cut else None
        self.micro_batch = int(cut.group(1)) // self.parts if cut else None
