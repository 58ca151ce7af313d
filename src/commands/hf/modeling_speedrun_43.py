"""train_gpt's RECIPE=speedrun_43 for transformers: AutoModelForCausalLM.from_pretrained(DIR, trust_remote_code=True).

TrainGpt is plain PyTorch; the two classes at the end wrap it. The config's attributes are train_gpt's model
settings in lower case; its record holds the model's stage, which selects the windows and RoPE. generate() caches
the keys and values of each block; with use_cache=False it recomputes all tokens.

Shapes: B sequences, T tokens, N tokens that are not cached, D model_dim, V vocab_size, E elements of a head.
"""

import torch
import torch.nn.functional as F
from torch import nn

from .train_gpt_common import (CausalLM, Config, Documents, Mlp, WindowStage, cached_tokens, rms_norm, smeared,
                               softcapped)

BLOCKS = range(1, 12)  # numbered as in the record's script, whose block 0 is empty
ATTENDING = [i for i in BLOCKS if i != 7]
LONG = (4, 11)  # blocks with the long window
DECODER = range(6, 11)  # block 6 + j adds the output of block 5 - j
BACKOUT = 8  # the block whose output is subtracted from the last one's
VALUE_TABLES = {1: 1, 2: 2, 9: 0, 10: 1, 11: 2}  # value table by block


def rope(x, angle):
    """Rotates the pairs (k, k + E / 2) of each head, those with k < E / 4. x [B, N, heads, E]; angle [B, N, E / 4]."""
    angle = F.pad(angle, (0, angle.shape[-1]))[:, :, None]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos + x2 * sin, x2 * cos - x1 * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self, config, block):
        super().__init__()
        dim, heads = config.model_dim, config.num_heads
        self.layer, self.head_dim, self.gate_scale = ATTENDING.index(block), dim // heads, config.sparse_attn_gate_scale
        self.c_q, self.c_k, self.c_v, self.proj = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.attn_gate = nn.Linear(config.gate_window, heads, bias=False)
        self.value_scale = nn.Parameter(torch.full((1,), 0.5))
        self.ve_scale = nn.Parameter(torch.full((1,), 0.5)) if block in VALUE_TABLES else None

    def forward(self, x, value_rows, angle, scale, seen, cache):
        """x [B, N, D] normalised; value_rows [B, N, D]: of the value table, or None; seen [B, 1, N, T]: mask."""
        heads = (*x.shape[:2], -1, self.head_dim)
        q, k = (rope(rms_norm(part(x).view(heads)), angle) for part in (self.c_q, self.c_k))
        v = self.value_scale * self.c_v(x)
        if value_rows is not None:
            v = v + self.ve_scale * value_rows
        q, k, v = (part.transpose(1, 2) for part in (q, k, v.view(heads)))
        if cache is not None:
            k, v = cache.update(k, v, self.layer)
        y = F.scaled_dot_product_attention(q, k, v, seen, scale=scale).transpose(1, 2)
        gate = self.gate_scale * self.attn_gate(x[..., :self.attn_gate.in_features])
        return self.proj((y * gate.sigmoid()[..., None]).flatten(2))


class Block(nn.Module):
    def __init__(self, config, block):
        super().__init__()
        self.resid_mix = nn.Parameter(torch.tensor([1.0, 0.0]))
        self.attn = Attention(config, block) if block in ATTENDING else None
        self.mlp = Mlp(config)

    def forward(self, x, x0, *context):
        """x0: the first block's input."""
        x = self.resid_mix[0] * x + self.resid_mix[1] * x0
        if self.attn is not None:
            x = x + self.attn(rms_norm(x), *context)
        return x + self.mlp(rms_norm(x))


class TrainGpt(nn.Module):
    """Token ids [B, T] int64 → softcapped logits [B, T, V] fp32. With a transformers cache, which holds the first
    tokens, only the logits of the other tokens. mask [B, T]: 0 at padding, whose logits repeat the logits of the
    token before it."""

    def __init__(self, config):
        super().__init__()
        vocab, dim = config.vocab_size, config.model_dim
        self.config = config
        self.tok_emb = nn.Embedding(vocab, dim)
        self.smear_gate = nn.Linear(config.gate_window, 1, bias=False)
        self.smear_lambda = nn.Parameter(torch.zeros(1))
        self.value_embeds = nn.ModuleList(nn.Embedding(vocab, dim) for _ in range(3))
        self.skip_weights = nn.Parameter(torch.full((len(DECODER),), -1.5))
        self.blocks = nn.ModuleDict({str(i): Block(config, i) for i in BLOCKS})
        self.backout_lambda = nn.Parameter(torch.tensor(0.5))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def embed(self, ids, ids_before, first):
        before = self.tok_emb(ids_before).masked_fill(first[..., None], 0)
        return rms_norm(smeared(self.tok_emb(ids), before, self.smear_gate, self.smear_lambda))

    def final_states(self, ids, places, cache):
        known = cached_tokens(ids, cache)
        config = self.config
        new, stage = ids[:, known:], WindowStage(config, config.model_dim // config.num_heads)
        angle = stage.angles(places.position[:, known:])
        short, long = (places.seen(new.shape[1], window) for window in (stage.short, stage.long))
        x = x0 = self.embed(new, ids.gather(1, places.before)[:, known:], places.first[:, known:])
        skips = []
        for i in BLOCKS:
            if i in DECODER:
                x = x + self.skip_weights[i - DECODER[0]].sigmoid() * skips.pop()
            rows = self.value_embeds[VALUE_TABLES[i]](new) if i in VALUE_TABLES else None
            x = self.blocks[str(i)](x, x0, rows, angle, stage.scale, long if i in LONG else short, cache)
            if i < DECODER[0]:
                skips.append(x)
            if i == BACKOUT:
                backout = x
        return places.at_last_tokens(rms_norm(x - self.backout_lambda * backout))

    def forward(self, ids, cache=None, mask=None):
        z = self.lm_head(self.final_states(ids, Documents(ids, mask, self.config), cache)).float()
        return softcapped(z, self.config)


class TrainGptConfig(Config):
    @property
    def num_hidden_layers(self):
        """Number of layers whose keys and values a cache holds."""
        return len(ATTENDING)


class TrainGptForCausalLM(CausalLM):
    config_class = TrainGptConfig
    plain = TrainGpt
