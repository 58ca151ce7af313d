"""Attention of a block. B: rows, T: tokens, D: MODEL_DIM, hd: head size, KV: key/value heads."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.varlen import varlen_attn


def rms_norm(x):
    return F.rms_norm(x, (x.size(-1),), eps=1.1920929e-07)


def linear(x, weight):
    return F.linear(x, weight.to(x.dtype))


class Rotary(nn.Module):
    def __init__(self, s, length):
        super().__init__()
        self.dims = s.ROPE_DIMS or s.MODEL_DIM // s.NUM_HEADS
        base, stretch = s.ROPE_BASE, s.TRAIN_SEQ_LEN / 1024
        if stretch > 1 and s.ROPE_YARN == "auto":
            base *= stretch ** (self.dims / (self.dims - 2))
        frequency = base ** -(torch.arange(0, self.dims, 2).float() / self.dims)
        angle = torch.outer(torch.arange(length).float(), frequency)[:, None, :]
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x):  # [B, T, heads, hd]
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        x1, x2 = x[..., : self.dims].chunk(2, dim=-1)
        rotated = [x1 * cos + x2 * sin, x2 * cos - x1 * sin]
        if self.dims < x.size(-1):
            rotated.append(x[..., self.dims :])
        return torch.cat(rotated, dim=-1)


def segment_mask(bounds, length, window):
    """Returns [T, T]: true if the query sees the key, which is in its segment, not later, and at most `window` before."""
    positions = torch.arange(length, dtype=bounds.dtype, device=bounds.device)
    segment = torch.searchsorted(bounds, positions, right=True)
    mask = (segment[:, None] == segment).tril()
    return mask if window < 0 else mask.triu(-window)


def causal_attention(q, k, v, bounds, longest, window=-1, scale=None):
    """q [B, T, heads, hd], k and v [B, T, KV, hd] → [B, T, heads, hd]. bounds: None, or the segment offsets [n + 1] int32
    of the only row, with segments of at most `longest` tokens; on a GPU they select varlen FlashAttention. window: with
    segments, how many keys before its own a query sees; -1: all. scale: of the scores, or None for 1 / sqrt(hd)."""
    if bounds is not None and q.is_cuda:
        q, k, v = (part.squeeze(0) for part in (q, k, v))
        window = -1 if window >= longest - 1 else window  # lets the kernel be causal attention
        missing = v.size(-1) - q.size(-1)  # the kernel wants heads of one width; zeros change no score
        if missing:
            q, k = F.pad(q, (0, missing)), F.pad(k, (0, missing))
        y = varlen_attn(q, k, v, bounds, bounds, longest, longest, scale=scale, window_size=(window, 0))
        return y.unsqueeze(0)
    mask = None if bounds is None else segment_mask(bounds, q.size(1), window)
    parts = (part.transpose(1, 2) for part in (q, k, v))
    y = F.scaled_dot_product_attention(
        *parts, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=q.size(2) != k.size(2)
    )
    return y.transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, s, layer):
        super().__init__()
        self.heads, self.kv_heads, self.longest = s.NUM_HEADS, s.NUM_KV_HEADS, s.SEGMENT_LIMIT
        self.exclusive = layer >= s.NUM_LAYERS - s.XSA_LAST_N
        self.gate_scale, self.gate_window = s.SPARSE_ATTN_GATE_SCALE, s.GATE_WINDOW
        self.q_gain = self.value_blend = self.attn_gate_w = None
        if s.QK_GAIN_INIT:
            self.q_gain = nn.Parameter(torch.full((s.NUM_HEADS,), s.QK_GAIN_INIT))
        if s.VALUE_RESIDUAL == "blend":
            self.value_blend = nn.Parameter(torch.tensor(0.5))
        if s.SPARSE_ATTN_GATE_ENABLED:
            self.attn_gate_w = nn.Parameter(torch.zeros(s.NUM_HEADS, s.GATE_WINDOW))

    def forward(self, x, weights, rotary, bounds, value_embedding, first_v):
        wq, wk, wv, wo = weights
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
        y = causal_attention(q, k, v, bounds, self.longest)
        if self.exclusive:
            y = self.without_own_value(y, v)
        if self.attn_gate_w is not None:
            gate = linear(x[..., : self.gate_window], self.attn_gate_w)
            y = y * (self.gate_scale * gate).sigmoid().unsqueeze(-1)
        return linear(y.reshape(batch, length, dim), wo), own_v

    def without_own_value(self, y, v):
        """Removes from y its projection onto v, for every query head of v's group."""
        unit = F.normalize(v, dim=-1).unsqueeze(3)  # [B, T, KV, 1, hd]
        groups = y.unflatten(2, (self.kv_heads, -1))
        return (groups - (groups * unit).sum(-1, keepdim=True) * unit).flatten(2, 3)
