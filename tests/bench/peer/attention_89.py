"""Attention of records 89 and 91, with names and layouts of the scripts. B: rows (1), T: tokens, H: heads, d: channels."""
import torch
import torch.nn.functional as F
from torch import nn

from peer.attention import causal_attention
from peer.settings import row_length
from peer.stages import has_prefix, windows


class Stage(nn.Module):
    """A stage's windows and longest segment in tokens, the scale of attention's scores, and tables of the rotation of twice
    as many positions as the row has, [2T, d / 4]."""

    def __init__(self, s, scale, frequencies, dtype):
        super().__init__()
        self.short, self.long = windows(s)
        self.longest, self.scale, self.has_prefix = s.SEGMENT_LIMIT, scale, has_prefix(s)
        angle = torch.outer(torch.arange(2 * row_length(s)).float(), frequencies)
        self.register_buffer("cos", angle.cos().to(dtype), persistent=False)
        self.register_buffer("sin", angle.sin().to(dtype), persistent=False)

    def rotate(self, x, paired):
        """Rotates the pairs (2j, 2j + 1) of the lower half of each head. Of paired heads, even ones are at position 2t, odd
        ones at 2t + 1. x [B, T, H, d]."""
        length, heads = x.shape[1:3]

        def positions(table):
            return table.view(length, 2, -1).repeat(1, heads // 2, 1) if paired else table[:length].unsqueeze(1)

        cos, sin = positions(self.cos), positions(self.sin)
        lower, upper = x.chunk(2, dim=-1)
        a, b = lower.unflatten(-1, (-1, 2)).unbind(-1)
        rotated = torch.stack([a * cos + b * sin, b * cos - a * sin], dim=-1)
        return torch.cat([rotated.flatten(-2), upper], dim=-1)

    def attend(self, q, k, v, bounds, is_long, paired):
        """Attention in segments and a window. Paired heads h and h + H / 2 are one head of a row of twice the length; its
        window has as many elements as another row's."""
        longest = self.longest
        if paired:
            q, k, v = (x.reshape(x.size(0), 2 * x.size(1), x.size(2) // 2, -1) for x in (q, k, v))
            bounds, longest = 2 * bounds, 2 * longest
        y = causal_attention(q, k, v, bounds, longest, self.long if is_long else self.short, self.scale)
        return y.reshape(y.size(0), -1, (2 if paired else 1) * y.size(2), y.size(3))


def with_offset(k):
    """Replaces the upper half of each key's channels by those of the key before."""
    lower, upper = k.chunk(2, dim=-1)
    return torch.cat([lower, torch.cat([upper[:, :1], upper[:, :-1]], dim=1)], dim=-1)


def composed(q, k, v, before, after, bounds, scale, window):
    """Attention of all heads over the last `window` keys, mixed across heads by weights of each token, `before` and `after`
    [B, T, H] (dynamically composable attention, Xiao et al. 2024). Computed in chunks, of which a query sees its own and
    the one before; T is a multiple of their length."""
    chunk = 1 << (window - 2).bit_length()
    length = q.size(1)

    def chunks(x):
        return x.squeeze(0).unflatten(0, (-1, chunk))

    def near(x):
        own = chunks(x)
        return torch.cat([torch.cat([torch.zeros_like(own[:1]), own[:-1]]), own], dim=1)

    position = torch.arange(length, dtype=bounds.dtype, device=q.device)
    segment = torch.searchsorted(bounds, position, right=True).unsqueeze(0)
    back = chunk + torch.arange(chunk, device=q.device).unsqueeze(-1) - torch.arange(2 * chunk, device=q.device)
    seen = (chunks(segment).unsqueeze(-1) == near(segment).unsqueeze(1)) & (back >= 0) & (back < window)
    scores = scale * torch.einsum("nqhd,nkhd->nhqk", chunks(q), near(k)).float()
    shares = scores.masked_fill(~seen.unsqueeze(1), float("-inf")).softmax(-1).to(v.dtype)
    before = before * (before.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt().to(v.dtype)
    mixed = torch.einsum("nqh,nhqk->nqk", chunks(before), shares)
    y = torch.einsum("nqk,nkhd->nqhd", mixed, near(v)).flatten(0, 1).unsqueeze(0)
    return after.unsqueeze(-1) * y


def without_own_value(y, v, gate):
    """Removes from y a share, tanh of the gate [B, T, H], of its projection onto v."""
    along = (y * v).sum(-1, keepdim=True) / v.square().sum(-1, keepdim=True).clamp(min=1e-8)
    return y - gate.tanh().unsqueeze(-1) * along * v
