#!/usr/bin/env python3
"""The model and training step of train_gpt as a plain PyTorch script, as a baseline.

    torch_compile_peer.py --config configs/record.env --steps 20 --warmup 3 [--eager] [--save-init FILE]

torch.compile compiles the model, its loss and the optimizers' updates; with --eager nothing is compiled. On a GPU in
bf16, attention is cuDNN's, or varlen FlashAttention (varlen_attn) for documents. Settings are read as in train_gpt:
NAME=value from the file, overridden by the environment; DATA_PATH=synthetic:zipf and synthetic:documents give the same
tokens. Supports everything that the presets use in training, the record's, speedrun's and last record's recipes and
records 43, 89 and 91 (whose settings are those that `train_gpt inspect --settings` prints for the preset); DTG, other gates
on attention, ROPE_YARN=1, VALUE_RESIDUAL=1, multi-token heads and QAT are rejected. Warm-up steps are real steps of each
stage that the run has, undone before the first timed step. Prints the loss of every step and ends with one line of JSON.
tests/bench/peer_parity.py compares the last record's model and records 43, 89 and 91 with references.
"""
import argparse
import copy
import functools
import itertools
import json
import os
import pathlib
import resource
import statistics
import sys
import time

import torch
from torch import nn

from peer.recipe import extra_inputs, make_model, make_optimizers
from peer.schedule import lr_scale, muon_momentum, stage_at, updates_all
from peer.settings import micro_batches, read_settings
from peer.tokens import batches, open_source


def process_uptime_s():
    """Returns the seconds since this process started, including imports."""
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


class Moment:
    """Marks when the work launched so far is done: on a GPU an event, without waiting for it."""

    def __init__(self, device):
        self.event = torch.cuda.Event(enable_timing=True) if device.type == "cuda" else None
        if self.event:
            self.event.record()
        self.host = time.perf_counter()

    def ms_since(self, earlier):
        if not self.event:
            return (self.host - earlier.host) * 1000
        self.event.synchronize()
        return earlier.event.elapsed_time(self.event)


class Trainer:
    def __init__(self, s, device, dtype, eager):
        self.s, self.device = s, device
        torch.manual_seed(s.SEED)
        self.model = make_model(s, dtype)
        if s.INIT_FROM:
            from safetensors.torch import load_file

            self.model.load_state_dict(load_file(s.INIT_FROM))
        self.model.to(device)
        self.params = list(self.model.parameters())
        compiled = functools.partial(torch.compile, dynamic=False, fullgraph=True, disable=eager)
        self.loss = compiled(self.model)
        self.adam, self.muon = make_optimizers(s, self.model, compiled)
        self.source = open_source(s)
        self.batches = self.batches_of(itertools.count())

    def batches_of(self, steps):
        return batches(self.s, self.source, self.device, (stage_at(self.s, step) for step in steps))

    def backward(self, step):
        """Adds the gradients of a step's micro-batches and returns their mean loss."""
        share, stage = 1 / micro_batches(self.s), stage_at(self.s, step)
        extra = extra_inputs(self.s, step, self.device)
        mean_loss = torch.zeros((), device=self.device)
        for _ in range(micro_batches(self.s)):
            loss, objective = self.loss(*next(self.batches), stage, *extra)
            mean_loss += loss.detach() * share
            (objective * share).backward()
        return mean_loss

    def step(self, step, scale, momentum, clip_norm, update_all):
        """update_all: else only Muon updates its parameters, and the others' gradients are kept for the next step."""
        mean_loss = self.backward(step)
        if clip_norm > 0:
            nn.utils.clip_grad_norm_(self.params, clip_norm)
        for optimizer in (self.adam, self.muon):
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * scale
        for group in self.muon.param_groups:
            group["momentum"] = momentum
        for optimizer in (self.adam, self.muon) if update_all else (self.muon,):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return mean_loss

    def warm_up(self, steps, first_steps):
        """Runs real steps at the base learning rates, without clipping, in the stage that begins with each of
        `first_steps`, then restores the state."""
        if steps == 0:
            return
        before = copy.deepcopy([part.state_dict() for part in (self.model, self.adam, self.muon)])
        repeated = [first for first in first_steps for _ in range(steps)]
        self.batches = self.batches_of(repeated)
        for step in repeated:
            self.step(step, 1.0, self.s.MUON_MOMENTUM, 0.0, update_all=True)
        for part, state in zip((self.model, self.adam, self.muon), before):
            part.load_state_dict(state)
        self.batches = self.batches_of(itertools.count())
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()  # excludes the copy of the weights

    def train(self, steps):
        """Runs this many steps; returns losses, milliseconds, and seconds from the launch to the end of the first step."""
        s = self.s
        losses, step_ms, launch_to_first_s = [], [], None
        ema = [p.detach().float().clone() for p in self.params] if s.EMA_ENABLED else []
        pending, moments = [], [Moment(self.device)]

        def report():
            nonlocal launch_to_first_s
            losses.append(pending.pop(0).item())
            launch_to_first_s = launch_to_first_s or process_uptime_s()
            began = moments.pop(0)
            step_ms.append(moments[0].ms_since(began))
            line = f"step:{len(losses)}/{steps} train_loss:{losses[-1]:.6f} {step_ms[-1]:.2f}ms"
            print(line, flush=True)

        for step in range(steps):
            schedule = lr_scale(s, step), muon_momentum(s, step)
            pending.append(self.step(step, *schedule, s.GRAD_CLIP_NORM, updates_all(s, step)))
            if ema:
                with torch.no_grad():
                    torch._foreach_lerp_(ema, [p.float() for p in self.params], 1 - s.EMA_DECAY)
            moments.append(Moment(self.device))
            if step > 0:  # waits for a step's metrics after launching the next step
                report()
        if pending:
            report()
        return losses, step_ms, launch_to_first_s


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", help="file of NAME=value")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--save-init", help="write the initial weights to this safetensors file")
    args = parser.parse_args()

    s = read_settings(args.config)
    cuda = s.DEVICE == "cuda" or (s.DEVICE == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if cuda else "cpu")
    name = s.COMPUTE_DTYPE if s.COMPUTE_DTYPE != "auto" else ("bf16" if cuda else "fp32")
    if name not in ("bf16", "fp32"):
        sys.exit(f"COMPUTE_DTYPE={name} is not in this script")
    if cuda and name == "bf16":
        torch.backends.cuda.enable_cudnn_sdp(True)
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_math_sdp(False)
    dtype = torch.bfloat16 if name == "bf16" else torch.float32
    trainer = Trainer(s, device, dtype, args.eager)
    count = sum(p.numel() for p in trainer.params)
    print(f"model_params:{count} device:{device} dtype:{name} threads:{torch.get_num_threads()}")
    if args.save_init:
        from safetensors.torch import save_file

        save_file(trainer.model.state_dict(), args.save_init)
    stages = [stage_at(s, step) for step in range(args.steps)]
    trainer.warm_up(args.warmup, [stages.index(stage) for stage in sorted(set(stages))])
    losses, step_ms, first_step_s = trainer.train(args.steps)

    median = statistics.median(step_ms) if step_ms else None
    rates = [s.stages[stage].TRAIN_BATCH_TOKENS / ms * 1000 for ms, stage in zip(step_ms, stages)]
    recurrent_ms = [ms for ms, stage in zip(step_ms, stages) if s.NUM_LOOPS and stage]
    if cuda:
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {
        "ms_per_step_median": median,
        "ms_per_recurrent_step_median": statistics.median(recurrent_ms) if recurrent_ms else None,
        "tokens_per_s": statistics.median(rates) if rates else None,
        "peak_memory_mib": peak / 2**20,
        "first_step_s": first_step_s,
        "losses": losses,
        "step_ms": step_ms,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
