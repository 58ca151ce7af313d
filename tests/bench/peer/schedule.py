"""What changes in the course of a run: learning rates, Muon's momentum, depth recurrence and attention windows."""
import itertools


def schedule_share(s, step):
    return step / (s.SCHEDULE_ITERATIONS or s.ITERATIONS)


def lr_scale(s, step):
    """WARMDOWN_ITERS counts as WARMDOWN_FRAC (see settings.resolve)."""
    done = schedule_share(s, step)
    if s.WARMDOWN_FRAC <= 0 or done < 1 - s.WARMDOWN_FRAC:
        return 1.0
    if s.LR_FLOOR == 0:
        return max((1 - done) / s.WARMDOWN_FRAC, s.MIN_LR)
    left = (1 - min(done, 0.9999)) / s.WARMDOWN_FRAC  # record 43's script stops just above the floor
    return left + (1 - left) * s.LR_FLOOR


def muon_momentum(s, step):
    def ramp(done, steps):
        return done / steps if steps > 0 else 1.0

    risen = min(
        ramp(step, s.MUON_MOMENTUM_WARMUP_STEPS), ramp(s.ITERATIONS - step, s.MUON_MOMENTUM_COOLDOWN_STEPS), 1.0
    )
    return (1 - risen) * s.MUON_MOMENTUM_WARMUP_START + risen * s.MUON_MOMENTUM


def updates_all(s, step):
    """Whether Adam updates its parameters after this step, with the sum of the gradients since its last update."""
    return (step + 1) % s.ADAM_EVERY == 0


def called_blocks(s, recurrent):
    """Returns the blocks in the order of their calls; the first half is the encoder, which pushes the skips."""
    blocks = list(range(s.NUM_LAYERS))
    if not recurrent or s.NUM_LOOPS == 0:
        return blocks
    begin, end = s.LOOP_START, s.LOOP_END + 1
    return blocks[:begin] + blocks[begin:end] * (s.NUM_LOOPS + 1) + blocks[end:]


def blocks_by_begin(text):
    """Parses SHORT_WINDOW or LONG_WINDOW, "3,7@735,11@1470": window in blocks, by first step or share of the schedule."""
    entries = (entry.partition("@") for entry in text.split(","))
    return {float(begin or 0): int(blocks) for blocks, _, begin in entries}


def window_stages(s):
    """Returns [(begin, short window, long window)] in blocks, wherever one of them changes."""
    schedules = [blocks_by_begin(text) for text in (s.SHORT_WINDOW, s.LONG_WINDOW)]
    begins = sorted(set(itertools.chain.from_iterable(schedules)))
    return [(begin, *(own[max(b for b in own if b <= begin)] for own in schedules)) for begin in begins]


def stage_at(s, step):
    """Returns the stage of the model's passes: the index in window_stages() of record 43, else whether blocks are
    looped."""
    if s.RECIPE == "speedrun_43":
        share = schedule_share(s, step)
        return sum(begin <= (share if begin < 1 else step) for begin, *_ in window_stages(s)) - 1
    return s.NUM_LOOPS > 0 and schedule_share(s, step) >= s.ENABLE_LOOPING_AT
