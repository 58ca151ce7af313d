"""The GPT of RECIPE=speedrun_43, record 43 of the GPT-124M speedrun, with the names and dtypes of its script."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from peer.attention import causal_attention, linear, rms_norm
from peer.settings import row_length
from peer.stages import rotations, windows

LAYERS = range(1, 12)  # layer 0 of the script does nothing
WITHOUT_ATTENTION = 7
LONG = (4, 11)  # layers with the long window
DECODER = range(6, 11)  # layer 6 + j adds the output of layer 5 - j
BACKOUT = 8  # the layer whose output is subtracted from the last one's
VALUE_TABLES = {1: 1, 2: 2, 9: 0, 10: 1, 11: 2}  # value table by layer
# Offsets in the vector of scalars; layers have pairs of them.
MIXES, VALUE_SCALES, SMEAR, BACKOUT_LAMBDA = 12, 36, 60, 61


class Stage(nn.Module):
    """The windows of a stage in tokens, the scale of attention's scores, and tables of the rotation, [T, 1, hd / 2]."""

    def __init__(self, windows, scale, turning, length, dtype):
        super().__init__()
        self.short, self.long = windows
        self.scale = scale
        frequencies = torch.cat([turning, torch.zeros_like(turning)])  # the other pairs do not turn
        angle = torch.outer(torch.arange(length).float(), frequencies)[:, None, :]
        self.register_buffer("cos", angle.cos().to(dtype), persistent=False)
        self.register_buffer("sin", angle.sin().to(dtype), persistent=False)

    def rotate(self, x):
        """Rotates the pairs (j, j + hd / 2) of each head. x [B, T, heads, hd]."""
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat([x1 * self.cos + x2 * self.sin, x2 * self.cos - x1 * self.sin], dim=-1)


def zero_linear(inputs, outputs):
    """Returns a layer of zeros that leaves the generator as it is."""
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


def smeared(x, gate_weight, weight):
    """Adds to each token the previous one, of another document too, by a gate on the token's first channels."""
    gate = linear(x[..., : gate_weight.size(1)], gate_weight).sigmoid()
    return x + weight * gate * F.pad(x[:, :-1], (0, 0, 1, 0))


def uniform_bound(dim):
    return math.sqrt(3) * 0.5 * dim**-0.5


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        dim, bound = s.MODEL_DIM, uniform_bound(s.MODEL_DIM)
        self.heads, self.longest, self.gate_scale = s.NUM_HEADS, s.SEGMENT_LIMIT, s.SPARSE_ATTN_GATE_SCALE
        self.qkvo_w = nn.Parameter(torch.zeros(dim, 4 * dim))  # in memory [4, D, D]: Q, K, V and the output
        with torch.no_grad():
            self.qkvo_w.view(4, dim, dim)[:3].uniform_(-bound, bound)
        self.attn_gate = zero_linear(s.GATE_WINDOW, s.NUM_HEADS)

    def forward(self, x, value_rows, value_scales, stage, bounds, window):
        """x [B, T, D]; value_rows [B, T, D]: of the value table, or None; value_scales: of the own values and these."""
        batch, length, dim = x.shape
        qkv_w, out_w = self.qkvo_w.view(4 * dim, dim).to(x.dtype).split([3 * dim, dim])
        qkv = linear(x, qkv_w).view(batch, length, 3 * self.heads, -1)
        q, k, v = qkv.chunk(3, dim=2)
        q, k = stage.rotate(rms_norm(q)), stage.rotate(rms_norm(k))
        v = value_scales[0] * v
        if value_rows is not None:
            v = v + value_scales[1] * value_rows.view_as(v)
        y = causal_attention(q, k, v, bounds, self.longest, window, stage.scale)
        gate = linear(x[..., : self.attn_gate.in_features], self.attn_gate.weight)
        y = y * (self.gate_scale * gate).sigmoid().unsqueeze(-1)
        return linear(y.flatten(2), out_w)


class Mlp(nn.Module):
    def __init__(self, s):
        super().__init__()
        dim, hidden, bound = s.MODEL_DIM, int(s.MLP_MULT * s.MODEL_DIM), uniform_bound(s.MODEL_DIM)
        self.slope = s.MLP_NEGATIVE_SLOPE
        self.c_fc = nn.Parameter(torch.empty(dim, hidden).uniform_(-bound, bound))
        self.c_proj = nn.Parameter(torch.zeros(dim, hidden))

    def forward(self, x):
        hidden = linear(x, self.c_fc.t())
        hidden = F.leaky_relu(hidden, self.slope) if self.slope else F.relu(hidden)
        return linear(hidden.square(), self.c_proj)


class Block(nn.Module):
    def __init__(self, s, layer):
        super().__init__()
        self.attn = Attention(s) if layer != WITHOUT_ATTENTION else None
        self.mlp = Mlp(s)

    def forward(self, x, *context):
        if self.attn is not None:
            x = x + self.attn(rms_norm(x), *context)
        return x + self.mlp(rms_norm(x))


class Speedrun43(nn.Module):
    # Parts are created in the order in which their initial weights are drawn.
    def __init__(self, s, compute_dtype):
        super().__init__()
        self.compute_dtype, self.softcap = compute_dtype, s.LOGIT_SOFTCAP
        self.embed = nn.Embedding(s.VOCAB_SIZE, s.MODEL_DIM)
        self.smear_gate = zero_linear(s.GATE_WINDOW, 1)
        self.value_embeds = nn.ModuleList(nn.Embedding(s.VOCAB_SIZE, s.MODEL_DIM) for _ in range(3))
        self.blocks = nn.ModuleDict({str(i): Block(s, i) for i in LAYERS})
        self.lm_head = zero_linear(s.MODEL_DIM, s.VOCAB_SIZE)
        skips, pairs = [-1.5] * MIXES, [1.0, 0.0] * 12 + [0.5, 0.5] * 12
        self.scalars = nn.Parameter(torch.tensor(skips + pairs + [0.0, 0.5]))
        self.stages = nn.ModuleList(
            Stage(windows(stage), *rotation, row_length(stage), compute_dtype)
            for stage, rotation in zip(s.stages, rotations(s, s.MODEL_DIM // s.NUM_HEADS))
        )
        if compute_dtype == torch.bfloat16:  # the other matrices are cast where they are used
            for module in self.modules():
                if isinstance(module, (nn.Embedding, nn.Linear)):
                    module.to(torch.bfloat16)

    def forward(self, inputs, targets, bounds, stage):
        """inputs, targets [1, T] → the mean loss, and the sum over tokens, which is differentiated. bounds: segment offsets
        of the row. stage: index of its windows."""
        scalars, stage = self.scalars.unbind(), self.stages[stage]
        x = x0 = rms_norm(smeared(self.embed(inputs), self.smear_gate.weight, scalars[SMEAR]))
        values = [table(inputs) for table in self.value_embeds]
        skips, backout = [], None
        for i in LAYERS:
            if i in DECODER:
                x = x + scalars[i - DECODER[0]].sigmoid() * skips.pop()
            x = scalars[MIXES + 2 * i] * x + scalars[MIXES + 2 * i + 1] * x0
            rows = values[VALUE_TABLES[i]] if i in VALUE_TABLES else None
            scales = scalars[VALUE_SCALES + 2 * i : VALUE_SCALES + 2 * i + 2]
            x = self.blocks[str(i)](x, rows, scales, stage, bounds, stage.long if i in LONG else stage.short)
            if i < DECODER[0]:
                skips.append(x)
            if i == BACKOUT:
                backout = x
        logits = linear(rms_norm(x - scalars[BACKOUT_LAMBDA] * backout), self.lm_head.weight).flatten(0, 1)
        logits = self.softcap * torch.tanh(logits / self.softcap)
        loss = F.cross_entropy(logits.float(), targets.flatten())
        return loss.detach(), loss * targets.numel()
