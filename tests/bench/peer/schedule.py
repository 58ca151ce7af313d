"""What changes in the course of a run: learning rates, Muon's momentum, depth recurrence and the stages."""
import math


def schedule_steps(s):
    return s.SCHEDULE_ITERATIONS or s.ITERATIONS


def schedule_share(s, step):
    return step / schedule_steps(s)


def warmdown_begin(s):
    """Returns the share of the schedule at which the warm-down begins."""
    begin = 1 - s.WARMDOWN_FRAC
    return math.floor(schedule_steps(s) * begin) / schedule_steps(s) if s.WARMDOWN_WHOLE_STEPS else begin


def lr_scale(s, step):
    """WARMDOWN_ITERS counts as WARMDOWN_FRAC (see settings.resolve)."""
    done, scale = schedule_share(s, step), s.stages[stage_at(s, step)].LR_SCALE
    warmdown = 1 - warmdown_begin(s) if s.WARMDOWN_WHOLE_STEPS else s.WARMDOWN_FRAC
    if warmdown <= 0 or done < warmdown_begin(s):
        return scale
    if s.LR_FLOOR == 0:
        return scale * max((1 - done) / warmdown, s.MIN_LR)
    most = 1 if s.WARMDOWN_WHOLE_STEPS else 0.9999  # record 43's script stops just above the floor
    left = (1 - min(done, most)) / warmdown
    return scale * left + (1 - left) * s.LR_FLOOR


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


def stage_at(s, step):
    """Returns the index in s.stages of a step's stage; of a model with looped blocks, 1 in depth recurrence."""
    share = schedule_share(s, step)
    if s.NUM_LOOPS:
        return int(share >= s.ENABLE_LOOPING_AT)
    return sum(stage.begin <= (share if stage.begin < 1 else step) for stage in s.stages) - 1
