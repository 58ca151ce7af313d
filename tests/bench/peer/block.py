"""One transformer block, called in one lane or in two."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from peer.attention import Attention, linear, rms_norm


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

    def mixed(self, x, x0):
        mix = self.resid_mix.to(x.dtype)
        return mix[0] * x + mix[1] * x0

    def attended(self, x, weights, *context):
        """Returns attention's output, to be added to x, and its values. context: attention's other inputs."""
        y, own_v = self.attn(rms_norm(x) * self.norm_scale, weights[:4], *context)
        return self.scaled(y, self.attn_scale), own_v

    def transformed(self, x, weights):
        """Returns the MLP's output, to be added to x."""
        up, down = weights[4:]
        hidden = linear(rms_norm(x) * self.norm_scale, up)
        hidden = F.leaky_relu(hidden, self.slope) if self.slope else F.relu(hidden)
        return self.scaled(linear(hidden.square(), down), self.mlp_scale)

    def forward(self, x, x0, weights, *context):
        """Returns x after attention and then the MLP, and attention's values."""
        x = self.mixed(x, x0)
        attended, own_v = self.attended(x, weights, *context)
        x = x + attended
        return x + self.transformed(x, weights), own_v

    def in_lanes(self, lanes, x0, weights, lambdas, *context):
        """Returns both lanes after attention on the first and the MLP on the second, in parallel, and attention's values.
        lambdas: (coefficients of the old lanes [2], of attention and the MLP in each lane [2, 2])."""
        keep, add = (part.to(x0.dtype) for part in lambdas)
        attended, own_v = self.attended(self.mixed(lanes[0], x0), weights, *context)
        transformed = self.transformed(lanes[1], weights)
        new = [keep[k] * lanes[k] + add[0, k] * attended + add[1, k] * transformed for k in (0, 1)]
        return new, own_v

    @staticmethod
    def scaled(x, scale):
        return x if scale is None else scale.to(x.dtype) * x
