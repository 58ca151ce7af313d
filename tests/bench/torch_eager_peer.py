#!/usr/bin/env python3
"""The model and step of train_gpt as a plain PyTorch eager script, to measure against.

    torch_eager_peer.py --config configs/quickstart.env --steps 20 --warmup 3 [--save-init FILE]

Settings are read as train_gpt reads them: NAME=value from the file, overridden by the environment.
Complete for what the presets train with; DTG, gated attention, VALUE_RESIDUAL=1, multi-token heads
and QAT are refused. Warm-up steps are real ones, rewound before the first timed step. Prints the
loss of every step and closes with one line of JSON. No torch.compile, no kernels of its own.

Letters in shapes: B sequences, T tokens, D MODEL_DIM, hd head size, KV key/value heads.
"""
import argparse
import copy
import json
import math
import os
import pathlib
import resource
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = {
    # data and run
    "DATA_PATH": "./data/datasets/fineweb10B_sp1024",
    "LOADER_ORDER": "stream",
    "SEED": 1337,
    "INIT_FROM": "",
    "ITERATIONS": 20000,
    "WARMDOWN_ITERS": 3500,
    "TRAIN_BATCH_TOKENS": 786432,
    "TRAIN_SEQ_LEN": 2048,
    "GRAD_ACCUM_STEPS": 0,
    "RECORD_QUIRKS": False,
    "DEVICE": "auto",
    "COMPUTE_DTYPE": "auto",
    # model
    "VOCAB_SIZE": 1024,
    "NUM_LAYERS": 11,
    "NUM_HEADS": 8,
    "NUM_KV_HEADS": 4,
    "MODEL_DIM": 512,
    "MLP_MULT": 3.0,
    "MLP_NEGATIVE_SLOPE": 0.5,
    "TIE_EMBEDDINGS": True,
    "ROPE_BASE": 1e4,
    "ROPE_DIMS": 16,
    "LOGIT_SOFTCAP": 30.0,
    "QK_GAIN_INIT": 1.5,
    "BIGRAM_VOCAB_SIZE": 2048,
    "BIGRAM_DIM": 128,
    "XSA_LAST_N": 4,
    "LN_SCALE": True,
    "VE_ENABLED": True,
    "VE_DIM": 128,
    "VE_LAYERS": "9,10",
    "VALUE_RESIDUAL": "0",
    "UNET_SKIPS": True,
    "SMEAR_GATE": True,
    "LAYER_SCALES": True,
    "RESID_MIX": "vector",
    # optimizer
    "EMBED_LR": 0.6,
    "HEAD_LR": 0.008,
    "TIED_EMBED_LR": 0.035,
    "TIED_EMBED_INIT_STD": 0.005,
    "MATRIX_LR": 0.025,
    "SCALAR_LR": 0.025,
    "MUON_MOMENTUM": 0.99,
    "MUON_MOMENTUM_WARMUP_START": 0.92,
    "MUON_MOMENTUM_WARMUP_STEPS": 1500,
    "MUON_BACKEND_STEPS": 5,
    "MUON_WD": 0.04,
    "ADAM_WD": 0.04,
    "BETA1": 0.9,
    "BETA2": 0.95,
    "ADAM_EPS": 1e-8,
    "GRAD_CLIP_NORM": 0.3,
    "EMA_ENABLED": True,
    "EMA_DECAY": 0.997,
    # refused when set
    "DTG_ENABLED": False,
    "GATED_ATTENTION": False,
    "MTP_NUM_HEADS": 0,
    "QAT_ENABLED": False,
}


def read_settings(path):
    texts = {}
    if path:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                name, value = line.split("=", 1)
                texts[name.strip()] = value.strip()
    texts.update((name, os.environ[name]) for name in DEFAULTS if name in os.environ)
    settings = argparse.Namespace(**DEFAULTS)
    for name, default in DEFAULTS.items():
        if name not in texts:
            continue
        text = texts[name]
        value = text in ("1", "true") if isinstance(default, bool) else type(default)(text)
        setattr(settings, name, value)
    for name in ("DTG_ENABLED", "GATED_ATTENTION", "MTP_NUM_HEADS", "QAT_ENABLED"):
        if getattr(settings, name):
            sys.exit(f"{name} is not in this script")
    if settings.VALUE_RESIDUAL not in ("0", "blend"):
        sys.exit(f"VALUE_RESIDUAL={settings.VALUE_RESIDUAL} is not in this script")
    return settings


# Data


class Shards:
    """All training tokens in a row, shard after shard, wrapping for ever."""

    def __init__(self, folder):
        paths = sorted(pathlib.Path(folder).glob("fineweb_train_*.bin"))
        if not paths:
            sys.exit(f"no fineweb_train_*.bin in {folder}")
        self.shards = [np.memmap(path, dtype="<u2", mode="r", offset=1024) for path in paths]
        self.total = sum(len(shard) for shard in self.shards)

    def read(self, begin, count):
        begin %= self.total
        parts = []
        while count > 0:
            for shard in self.shards:
                if begin < len(shard):
                    parts.append(np.asarray(shard[begin : begin + count]))
                    count -= len(parts[-1])
                    begin = 0
                    if count == 0:
                        break
                else:
                    begin -= len(shard)
        return np.concatenate(parts).astype(np.int64)


def stream_order(shards, tokens):
    begin = 0
    while True:
        yield shards.read(begin, tokens + 1)
        begin += tokens + 1


def strided_order(shards, tokens, repeat_first):
    starts = np.cumsum([0] + [len(shard) for shard in shards.shards])
    if repeat_first:
        yield shards.read(0, tokens + 1)
    while True:
        for start, shard in zip(starts, shards.shards):
            offset = 0
            while offset + tokens + 1 <= len(shard):
                yield shards.read(start + offset, tokens + 1)
                offset += tokens


def batches(s, device):
    """Endless micro-batches: inputs and targets [B, T]."""
    tokens = s.TRAIN_BATCH_TOKENS // micro_batches(s)
    shards = Shards(s.DATA_PATH)
    if s.LOADER_ORDER == "stream":
        order = stream_order(shards, tokens)
    else:
        order = strided_order(shards, tokens, s.RECORD_QUIRKS)
    for row in order:
        row = torch.from_numpy(row)
        if device.type == "cuda":
            row = row.pin_memory().to(device, non_blocking=True)
        yield row[:-1].view(-1, s.TRAIN_SEQ_LEN), row[1:].view(-1, s.TRAIN_SEQ_LEN)


def micro_batches(s):
    return s.GRAD_ACCUM_STEPS or 8


# Model


def rms_norm(x):
    return F.rms_norm(x, (x.size(-1),), eps=1.1920929e-07)


def linear(x, weight):
    return F.linear(x, weight.to(x.dtype))


class Rotary(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.dims = s.ROPE_DIMS or s.MODEL_DIM // s.NUM_HEADS
        base, stretch = s.ROPE_BASE, s.TRAIN_SEQ_LEN / 1024
        if stretch > 1:
            base *= stretch ** (self.dims / (self.dims - 2))
        frequency = base ** -(torch.arange(0, self.dims, 2).float() / self.dims)
        angle = torch.outer(torch.arange(s.TRAIN_SEQ_LEN).float(), frequency)[:, None, :]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x):  # [B, T, heads, hd]
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        x1, x2 = x[..., : self.dims].chunk(2, dim=-1)
        rotated = [x1 * cos + x2 * sin, x2 * cos - x1 * sin]
        if self.dims < x.size(-1):
            rotated.append(x[..., self.dims :])
        return torch.cat(rotated, dim=-1)


class Attention(nn.Module):
    def __init__(self, s, layer):
        super().__init__()
        self.heads, self.kv_heads = s.NUM_HEADS, s.NUM_KV_HEADS
        self.exclusive = layer >= s.NUM_LAYERS - s.XSA_LAST_N
        self.q_gain = self.value_blend = None
        if s.QK_GAIN_INIT:
            self.q_gain = nn.Parameter(torch.full((s.NUM_HEADS,), s.QK_GAIN_INIT))
        if s.VALUE_RESIDUAL == "blend":
            self.value_blend = nn.Parameter(torch.tensor(0.5))

    def forward(self, x, wq, wk, wv, wo, rotary, value_embedding, first_v):
        batch, length, dim = x.shape
        q = linear(x, wq).view(batch, length, self.heads, -1)
        k = linear(x, wk).view(batch, length, self.kv_heads, -1)
        v = linear(x, wv)
        if value_embedding is not None:
            v = v + value_embedding
        own_v = v = v.view(batch, length, self.kv_heads, -1)
        if self.value_blend is not None:
            share = self.value_blend.to(x.dtype)
            v = (1 - share) * v + share * (v if first_v is None else first_v)
        q, k = rotary(rms_norm(q)), rotary(rms_norm(k))
        if self.q_gain is not None:
            q = q * self.q_gain.to(x.dtype)[:, None]
        y = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=True,
            enable_gqa=self.heads != self.kv_heads,
        ).transpose(1, 2)
        if self.exclusive:
            y = self.without_own_value(y, v)
        return linear(y.reshape(batch, length, dim), wo), own_v

    def without_own_value(self, y, v):
        """y less its part along v, for every query head of v's group."""
        unit = F.normalize(v, dim=-1).unsqueeze(3)  # [B, T, KV, 1, hd]
        groups = y.unflatten(2, (self.kv_heads, -1))
        return (groups - (groups * unit).sum(-1, keepdim=True) * unit).flatten(2, 3)


class Block(nn.Module):
    def __init__(self, s, layer):
        super().__init__()
        self.attn = Attention(s, layer)
        self.norm_scale = 1 / math.sqrt(layer + 1) if s.LN_SCALE else 1.0
        self.slope = s.MLP_NEGATIVE_SLOPE
        self.attn_scale = self.mlp_scale = None
        if s.LAYER_SCALES:
            self.attn_scale = nn.Parameter(torch.ones(s.MODEL_DIM))
            self.mlp_scale = nn.Parameter(torch.ones(s.MODEL_DIM))
        ones = torch.ones(s.MODEL_DIM) if s.RESID_MIX == "vector" else torch.tensor(1.0)
        self.resid_mix = nn.Parameter(torch.stack([ones, torch.zeros_like(ones)]))

    def forward(self, x, x0, weights, rotary, value_embedding, first_v):
        wq, wk, wv, wo, up, down = weights
        mix = self.resid_mix.to(x.dtype)
        x = mix[0] * x + mix[1] * x0
        attended, own_v = self.attn(
            rms_norm(x) * self.norm_scale, wq, wk, wv, wo, rotary, value_embedding, first_v
        )
        x = x + self.scaled(attended, self.attn_scale)
        hidden = linear(rms_norm(x) * self.norm_scale, up)
        hidden = F.leaky_relu(hidden, self.slope) if self.slope else F.relu(hidden)
        x = x + self.scaled(linear(hidden.square(), down), self.mlp_scale)
        return x, own_v

    @staticmethod
    def scaled(x, scale):
        return x if scale is None else scale.to(x.dtype) * x


class ProjectedTable(nn.Module):
    """A narrow embedding, a projection (where the widths differ) and a learned scale."""

    def __init__(self, rows, dim, out_dim, scale, std=None):
        super().__init__()
        self.embed = nn.Embedding(rows, dim)
        if std is not None:
            nn.init.normal_(self.embed.weight, std=std)
        self.proj = nn.Linear(dim, out_dim, bias=False) if dim != out_dim else None
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, ids, dtype):
        x = self.embed(ids).to(dtype)
        if self.proj is not None:
            x = linear(x, self.proj.weight)
        return x * self.scale.to(dtype)


class Smear(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        share = self.gate.to(x.dtype).sigmoid()
        before = F.pad(x[:, :-1], (0, 0, 1, 0))
        return (1 - share) * x + share * before


def bigram_rows(ids, rows):
    ids = ids.to(torch.int32)
    hashed = torch.bitwise_xor(36313 * ids[:, 1:], 27191 * ids[:, :-1]) % (rows - 1)
    return F.pad(hashed, (1, 0), value=rows - 1)


class GPT(nn.Module):
    # Parts are made in the order in which their initial weights are drawn.
    def __init__(self, s, compute_dtype):
        super().__init__()
        self.compute_dtype = compute_dtype
        self.layers, self.softcap = s.NUM_LAYERS, s.LOGIT_SOFTCAP
        dim, layers = s.MODEL_DIM, s.NUM_LAYERS
        kv_dim = s.NUM_KV_HEADS * (dim // s.NUM_HEADS)
        hidden = int(s.MLP_MULT * dim)
        self.qo_bank = nn.Parameter(torch.zeros(2 * layers, dim, dim))
        self.kv_bank = nn.Parameter(torch.zeros(2 * layers, kv_dim, dim))
        self.mlp_up_bank = nn.Parameter(torch.zeros(layers, hidden, dim))
        self.mlp_down_bank = nn.Parameter(torch.zeros(layers, dim, hidden))
        self.tok_emb = nn.Embedding(s.VOCAB_SIZE, dim)
        self.bigram = self.smear = self.skip_weights = self.ve_shared = self.lm_head = None
        if s.BIGRAM_VOCAB_SIZE:
            self.bigram = ProjectedTable(s.BIGRAM_VOCAB_SIZE, s.BIGRAM_DIM, dim, 0.05)
        if s.SMEAR_GATE:
            self.smear = Smear(dim)
        if s.UNET_SKIPS:
            self.skip_weights = nn.Parameter(torch.ones(layers // 2, dim))
        self.rotary = Rotary(s)
        self.blocks = nn.ModuleList(Block(s, layer) for layer in range(layers))
        self.ve_layers = [int(i) for i in s.VE_LAYERS.split(",")] if s.VE_ENABLED else []
        if self.ve_layers:
            self.ve_shared = ProjectedTable(s.VOCAB_SIZE, s.VE_DIM, kv_dim, 0.1, std=0.01)
            self.ve_layer_scales = nn.ParameterList(torch.ones(1) for _ in self.ve_layers)
        if not s.TIE_EMBEDDINGS:
            # Starts at zero in both recipes; the record's draws it all the same.
            shape = dict(in_features=dim, out_features=s.VOCAB_SIZE, bias=False)
            speedrun = s.VALUE_RESIDUAL == "blend"
            self.lm_head = (
                nn.utils.skip_init(nn.Linear, **shape) if speedrun else nn.Linear(**shape)
            )
        self.init_weights(s)
        if compute_dtype == torch.bfloat16:
            for module in self.modules():
                if isinstance(module, nn.Embedding):
                    module.to(torch.bfloat16)

    @torch.no_grad()
    def init_weights(self, s):
        record = s.VALUE_RESIDUAL != "blend"
        if self.lm_head is not None:
            self.lm_head.weight.zero_()
        if s.TIE_EMBEDDINGS:
            nn.init.normal_(self.tok_emb.weight, std=s.TIED_EMBED_INIT_STD)
        for i in range(self.layers):
            q, k, v, out, up, down = self.layer_weights(i)
            for weight in (q, k, v, up) if record else (q, k, v, out, up, down):
                if record:
                    nn.init.orthogonal_(weight)
                else:
                    nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
            out.zero_()
            down.zero_()
        for table in (self.bigram, self.ve_shared):
            if table is None or table.proj is None:
                continue
            table.proj.weight.zero_()
            if min(table.proj.weight.shape) >= 64:
                nn.init.orthogonal_(table.proj.weight)
        if self.bigram is not None:
            self.bigram.embed.weight.zero_()

    def layer_weights(self, i):
        n = self.layers
        return (
            self.qo_bank[i],
            self.kv_bank[i],
            self.kv_bank[n + i],
            self.qo_bank[n + i],
            self.mlp_up_bank[i],
            self.mlp_down_bank[i],
        )

    def forward(self, inputs, targets):
        dtype = self.compute_dtype
        x = self.tok_emb(inputs).to(dtype)
        if self.bigram is not None:
            rows = bigram_rows(inputs, self.bigram.embed.num_embeddings)
            x = x + self.bigram(rows, dtype)
        x = rms_norm(x)
        if self.smear is not None:
            x = self.smear(x)
        x0, first_v, skips = x, None, []
        values = self.ve_shared(inputs, dtype) if self.ve_shared is not None else None
        half = self.layers // 2
        for i, block in enumerate(self.blocks):
            if self.skip_weights is not None and i >= half and skips:
                x = x + self.skip_weights[i - half].to(dtype) * skips.pop()
            value_embedding = None
            if i in self.ve_layers:
                scale = self.ve_layer_scales[self.ve_layers.index(i)]
                value_embedding = values * scale.to(dtype)
            weights = self.layer_weights(i)
            x, own_v = block(x, x0, weights, self.rotary, value_embedding, first_v)
            if first_v is None:
                first_v = own_v
            if i < half:
                skips.append(x)
        head = self.tok_emb.weight if self.lm_head is None else self.lm_head.weight
        logits = linear(rms_norm(x), head).flatten(0, 1)
        logits = self.softcap * torch.tanh(logits / self.softcap)
        return F.cross_entropy(logits.float(), targets.flatten())


# Optimizers


def newton_schulz(g, steps):
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.size(-2) > g.size(-1)
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum, weight_decay, steps, dtype):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.steps, self.dtype = steps, dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad.to(self.dtype)
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(g)
                momentum = state["momentum"].mul_(group["momentum"]).add_(g)
                update = newton_schulz(g.add(momentum, alpha=group["momentum"]), self.steps)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                shape = math.sqrt(max(1, p.size(-2) / p.size(-1)))
                p.add_(update.to(p.dtype), alpha=-group["lr"] * shape)


def make_optimizers(s, model):
    tables, scalars, heads, banks = [], [], [], []
    for name, parameter in model.named_parameters():
        if name.endswith("_bank"):
            banks.append(parameter)
        elif name == "lm_head.weight":
            heads.append(parameter)
        elif name == "tok_emb.weight" or name.endswith(".embed.weight"):
            tables.append(parameter)
        else:
            scalars.append(parameter)
    table_lr = s.TIED_EMBED_LR if s.TIE_EMBEDDINGS else s.EMBED_LR
    groups = [
        dict(params=tables, lr=table_lr, weight_decay=s.ADAM_WD),
        dict(params=scalars, lr=s.SCALAR_LR, weight_decay=s.ADAM_WD),
        dict(params=heads, lr=s.HEAD_LR, weight_decay=0.0),
    ]
    adam = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        betas=(s.BETA1, s.BETA2),
        eps=s.ADAM_EPS,
        fused=True,
    )
    dtype = model.compute_dtype
    muon = Muon(banks, s.MATRIX_LR, s.MUON_MOMENTUM, s.MUON_WD, s.MUON_BACKEND_STEPS, dtype)
    for optimizer in (adam, muon):
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return adam, muon


def lr_scale(s, step):
    if s.WARMDOWN_ITERS <= 0 or step < s.ITERATIONS - s.WARMDOWN_ITERS:
        return 1.0
    return max(s.ITERATIONS - step, 0) / s.WARMDOWN_ITERS


def muon_momentum(s, step):
    if s.MUON_MOMENTUM_WARMUP_STEPS <= 0:
        return s.MUON_MOMENTUM
    progress = min(step / s.MUON_MOMENTUM_WARMUP_STEPS, 1)
    return (1 - progress) * s.MUON_MOMENTUM_WARMUP_START + progress * s.MUON_MOMENTUM


# Training


class Trainer:
    def __init__(self, s, device, dtype):
        self.s, self.device = s, device
        torch.manual_seed(s.SEED)
        self.model = GPT(s, dtype)
        if s.INIT_FROM:
            from safetensors.torch import load_file

            self.model.load_state_dict(load_file(s.INIT_FROM))
        self.model.to(device)
        self.params = list(self.model.parameters())
        self.adam, self.muon = make_optimizers(s, self.model)
        self.batches = batches(s, device)

    def step(self, scale, momentum, clip_norm):
        s = self.s
        self.adam.zero_grad(set_to_none=True)
        self.muon.zero_grad(set_to_none=True)
        share = 1 / micro_batches(s)
        mean_loss = torch.zeros((), device=self.device)
        for _ in range(micro_batches(s)):
            loss = self.model(*next(self.batches))
            mean_loss += loss.detach() * share
            (loss * share).backward()
        if clip_norm > 0:
            nn.utils.clip_grad_norm_(self.params, clip_norm)
        for optimizer in (self.adam, self.muon):
            for group in optimizer.param_groups:
                group["lr"] = group["base_lr"] * scale
        for group in self.muon.param_groups:
            group["momentum"] = momentum
        self.adam.step()
        self.muon.step()
        return mean_loss

    def warm_up(self, steps):
        """Real steps at the base learning rates, without clipping; then everything goes back."""
        if steps == 0:
            return
        before = copy.deepcopy([part.state_dict() for part in (self.model, self.adam, self.muon)])
        for _ in range(steps):
            self.step(1.0, self.s.MUON_MOMENTUM, 0.0)
        for part, state in zip((self.model, self.adam, self.muon), before):
            part.load_state_dict(state)
        self.batches = batches(self.s, self.device)
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def train(self, steps):
        """Losses and milliseconds of so many steps."""
        s = self.s
        losses, step_ms = [], []
        ema = [p.detach().float().clone() for p in self.params] if s.EMA_ENABLED else []
        began = time.perf_counter()
        for step in range(steps):
            loss = self.step(lr_scale(s, step), muon_momentum(s, step), s.GRAD_CLIP_NORM)
            if ema:
                with torch.no_grad():
                    weights = [p.float() for p in self.params]
                    torch._foreach_lerp_(ema, weights, 1 - s.EMA_DECAY)
            losses.append(loss.item())
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            ended = time.perf_counter()
            step_ms.append((ended - began) * 1000)
            began = ended
            line = f"step:{step + 1}/{steps} train_loss:{losses[-1]:.6f} {step_ms[-1]:.2f}ms"
            print(line, flush=True)
        return losses, step_ms


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", help="file of NAME=value")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--save-init", help="write the initial weights to this safetensors file")
    args = parser.parse_args()

    s = read_settings(args.config)
    cuda = s.DEVICE == "cuda" or (s.DEVICE == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if cuda else "cpu")
    name = s.COMPUTE_DTYPE if s.COMPUTE_DTYPE != "auto" else ("bf16" if cuda else "fp32")
    if name not in ("bf16", "fp32"):
        sys.exit(f"COMPUTE_DTYPE={name} is not in this script")
    trainer = Trainer(s, device, torch.bfloat16 if name == "bf16" else torch.float32)
    count = sum(p.numel() for p in trainer.params)
    print(f"model_params:{count} device:{device} dtype:{name} threads:{torch.get_num_threads()}")
    if args.save_init:
        from safetensors.torch import save_file

        save_file(trainer.model.state_dict(), args.save_init)
    trainer.warm_up(args.warmup)
    losses, step_ms = trainer.train(args.steps)

    median = statistics.median(step_ms) if step_ms else None
    if cuda:
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    result = {
        "ms_per_step_median": median,
        "tokens_per_s": s.TRAIN_BATCH_TOKENS / median * 1000 if median else None,
        "peak_memory_mib": peak / 2**20,
        "losses": losses,
        "step_ms": step_ms,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
