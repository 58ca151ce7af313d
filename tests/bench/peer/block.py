"""One transformer block. B sequences, T tokens, D MODEL_DIM, hd head size, KV key/value heads."""
import math

import torch
import torch.nn.functional as F
from torch import nn


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
