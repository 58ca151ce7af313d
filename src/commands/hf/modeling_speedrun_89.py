"""train_gpt's RECIPE=speedrun_89 and speedrun_91 for transformers: AutoModelForCausalLM.from_pretrained(DIR,
trust_remote_code=True).

TrainGpt is plain PyTorch; the two classes at the end wrap it. The config's attributes are train_gpt's model settings
in lower case; its record holds the model's stage, which selects the windows and RoPE. generate() caches the keys and
values of each block, which suffices, since a token reads other blocks' states at its own position alone; with
use_cache=False it recomputes all tokens.

Shapes: B sequences, T tokens, N tokens that are not cached, D model_dim, V vocab_size, H heads, E elements of a query's
or a key's head.
"""

import torch
import torch.nn.functional as F
from torch import nn

from .train_gpt_common import (CausalLM, Config, Documents, Mlp, WindowStage, bigram_hash, cached_tokens, rms_norm,
                               smeared, softcapped)

HEADS = 6
BLOCKS = range(11)
ATTENDING = [i for i in BLOCKS if i != 6]
LAST = 10
LONG = (3, LAST)  # blocks with the long window, where half of a key is the previous token's
PAIRED = (0, 2, 5, 9)  # blocks in which a token is two elements of a row, each with half of the heads
VALUE_TABLES = {1: 0, 2: 1, 8: 2, 9: 3}  # value table by block; the last block mixes table 4 into its values
# First of a block's outputs of a network of gates, of which blocks 0 to 3 have the first, the others the second: each
# head's weight of the part of its output along the own value, its gate, and a pair of gates of the embedding and the
# bigram embedding.
EXCLUSIVE = {1: 0, 3: 6, 4: 0, 7: 6}
GATED = {3: 12, LAST: 12}
PAIRS = {0: 18, 1: 20, 2: 22, 3: 24, 4: 18, 5: 20, 7: 22, 8: 24, 9: 26}
SKIP, COMPOSED = 28, (29, 35)  # the gate of block 6's skip; weights of the heads before and after their composition


def query_head_dim(config):
    return config.qk_head_dim or config.model_dim // HEADS


def rope(x, angle):
    """Rotates the pairs (2k, 2k + 1) of the first half of each head. x [B, N, H, E]; angle [B, N, 1 or H, E / 4]."""
    turning, kept = x.chunk(2, dim=-1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    x1, x2 = turning[..., ::2], turning[..., 1::2]
    return torch.cat([torch.stack([x1 * cos + x2 * sin, x2 * cos - x1 * sin], dim=-1).flatten(-2), kept], dim=-1)


class Places(Documents):
    """Positions and documents of the ids [B, T]; RoPE's angles and the attention masks of the last `count` ids."""

    def __init__(self, ids, mask, config, count):
        super().__init__(ids, mask, config)
        stage = WindowStage(config, query_head_dim(config))
        position = self.position[:, -count:, None]
        self.scale, self.key_before = stage.scale, torch.where(self.first, self.index, self.before)
        parity = torch.arange(HEADS, device=ids.device) % 2
        self.angle, self.paired_angle = stage.angles(position), stage.angles(2 * position + parity)
        self.short, self.long, self.near = (self.seen(count, window) for window in (
            stage.short, stage.long, config.dc_window - 1))
        self.paired = self.seen(count, stage.short, parts=2)


class Attention(nn.Module):
    def __init__(self, config, block):
        super().__init__()
        dim, query_dim = config.model_dim, HEADS * query_head_dim(config)
        self.block, self.layer = block, ATTENDING.index(block)
        self.c_q, self.c_k, self.c_v, self.proj = (
            nn.Linear(dim, outputs, bias=False) for outputs in (query_dim, query_dim, dim, dim))
        self.qkv_scale = nn.Parameter(torch.full((1,), 0.5))

    def forward(self, x, values, gates, places, cache):
        """x [B, N, D] normalised; values [B, N, H, D / H]: added to x's, or None; gates [B, N, 41]."""
        def of_heads(first):
            return gates[..., first:first + HEADS, None]

        angle = places.paired_angle if self.block in PAIRED else places.angle
        q, k, v = (self.qkv_scale * part(x).unflatten(-1, (HEADS, -1)) for part in (self.c_q, self.c_k, self.c_v))
        q, k = (rope(rms_norm(part), angle) for part in (q, k))
        v = own = v if values is None else v + values
        if cache is not None:
            # Keys are cached before the offset, since the next token needs all of this one's.
            cached = cache.update(k.transpose(1, 2), v.transpose(1, 2), self.layer)
            k, v = (part.transpose(1, 2) for part in cached)
        if self.block in LONG:
            kept, offset = k.chunk(2, dim=-1)
            before = places.key_before[..., None, None].expand_as(offset)
            k = torch.cat([kept, offset.gather(1, before)], dim=-1)
        y = self.attend(q, k, v, places)
        if self.block == LAST:
            pre, post = map(of_heads, COMPOSED)
            pre = pre * (pre.square().mean(2, keepdim=True) + 1e-6).rsqrt()
            scores = places.scale * torch.einsum("bqhe,bkhe->bhqk", q, k)
            near = scores.masked_fill(~places.near, -torch.inf).softmax(-1)
            y = y + post * torch.einsum("bqh,bhqk,bkge->bqge", pre[..., 0], near, v)
        if self.block in EXCLUSIVE:
            along = (y * own).sum(-1, keepdim=True) / own.square().sum(-1, keepdim=True).clamp_min(1e-8)
            y = y - of_heads(EXCLUSIVE[self.block]).tanh() * along * own
        if self.block in GATED:
            y = y * of_heads(GATED[self.block])
        return self.proj(y.flatten(2))

    def attend(self, q, k, v, places):
        """Returns attention's output [B, N, H, D / H]."""
        seen, heads = places.long if self.block in LONG else places.short, HEADS
        if self.block in PAIRED:
            seen, heads = places.paired, HEADS // 2
        q, k, v = (part.reshape(len(part), -1, heads, part.shape[-1]).transpose(1, 2) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, seen, scale=places.scale).transpose(1, 2)
        return y.reshape(len(y), -1, HEADS, y.shape[-1])


class Block(nn.Module):
    def __init__(self, config, block):
        super().__init__()
        self.attn = Attention(config, block) if block in ATTENDING else None
        self.attn_scale = nn.Parameter(torch.ones(1)) if block in ATTENDING else None
        self.mlp = Mlp(config)


class TrainGpt(nn.Module):
    """Token ids [B, T] int64 → softcapped logits [B, T, V] fp32. With a transformers cache, which holds the first
    tokens, only the logits of the other tokens. mask [B, T]: 0 at padding, whose logits repeat the logits of the
    token before it."""

    def __init__(self, config):
        super().__init__()
        vocab, dim, hidden = config.vocab_size, config.model_dim, config.mudd_dim

        def zeros(*shape):
            return nn.Parameter(torch.zeros(shape))

        self.config = config
        self.tok_emb = nn.Embedding(vocab, dim)
        self.smear_gate, self.smear_lambda = nn.Linear(config.gate_window, 1, bias=False), zeros(1)
        self.value_embeds, self.ve_gate_bank = zeros(5 * vocab, dim), zeros(5, HEADS, 12)
        self.bigram_embed = nn.Embedding(config.bigram_vocab_size, dim)
        self.bigram_sign_table = zeros(config.bigram_sign_rows, dim)
        self.mudd_w1, self.mudd_w2, self.mudd_b2 = zeros(2, hidden, dim), zeros(2, 14, hidden), zeros(2, 14)
        self.mudd_gate_w1, self.mudd_gate_w2 = zeros(2, hidden, dim), zeros(2, 41, hidden)
        self.mudd_gate_b2, self.mudd_gate_scale = zeros(2, 41), nn.Parameter(torch.tensor(0.1))
        self.resid_lambdas, self.post_lambdas, self.skip_lambda = zeros(len(BLOCKS), 2), zeros(len(BLOCKS), 2), zeros(1)
        self.blocks = nn.ModuleList(Block(config, i) for i in BLOCKS)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def embed(self, ids, before, position):
        """Returns normalised embeddings and bigram embeddings, [B, N, D]; of pairs of tokens across documents, too."""
        first = position == 0
        smear = self.tok_emb(before).masked_fill(first[..., None], 0)
        x0 = rms_norm(smeared(self.tok_emb(ids), smear, self.smear_gate, self.smear_lambda))
        table = self.bigram_embed.num_embeddings
        # A row's second token is hashed with the first one's row of the table in the place of its id.
        bigrams = self.bigram_embed(bigram_hash(ids, before.masked_fill(position == 1, table - 1), first, table))
        signs = ((ids ^ before) % len(self.bigram_sign_table)).masked_fill(first, 0)
        return x0, bigrams * self.bigram_sign_table[signs]

    def network(self, name, number, x):
        """Returns the outputs [B, N, outputs] of network 0 or 1 of that name."""
        w1, w2, b2 = (getattr(self, f"{name}_{part}")[number] for part in ("w1", "w2", "b2"))
        scale = self.mudd_gate_scale if name == "mudd_gate" else 0.1
        return scale * F.linear(F.gelu(F.linear(x, w1)), w2, b2)

    def gated_values(self, table, x, row):
        """Returns the rows [B, N, D] of a value table, weighted by head, [B, N, H, D / H]."""
        weight = 2 * F.linear(torch.cat([x[..., :6], row[..., :6]], dim=-1), self.ve_gate_bank[table]).sigmoid()
        return weight[..., None] * row.unflatten(-1, (HEADS, -1))

    def last_block(self, x, c0, c7, bigrams, row, *context):
        """Mixes the states c0 and c7 before blocks 0 and 8 into values and stream. row [B, N, D]: of value table 4."""
        m = self.network("mudd", 0, x).split(1, dim=-1)
        mixed, row = (part.unflatten(-1, (2, HEADS // 2, -1)) for part in (m[0] * c0 + m[1] * c7 + m[2] * x, row))
        values = mixed + torch.stack(m[6:8], dim=2)[..., None] * row
        block = self.blocks[LAST]
        attended = block.attn_scale * block.attn(rms_norm(c7), values.flatten(2, 3), *context)
        x = m[8] * ((1 + m[5]) * x + m[3] * c0 + m[4] * c7) + m[9] * attended + m[10] * c0 + m[11] * bigrams
        return m[12] * x + m[13] * block.mlp(rms_norm(x))

    def final_states(self, ids, cache, mask):
        known = cached_tokens(ids, cache)
        new = ids[:, known:]
        places = Places(ids, mask, self.config, new.shape[1])
        x0, bigrams = self.embed(new, ids.gather(1, places.before)[:, known:], places.position[:, known:])
        rows = self.value_embeds.unflatten(0, (5, -1))[:, new]
        gates = self.network("mudd_gate", 0, x0)
        x = c0 = x0 + gates[..., PAIRS[0] + 1, None] * bigrams
        for i, block in enumerate(self.blocks[:LAST]):
            if i == 4:
                c3, gates = x, self.network("mudd_gate", 1, x)
            if i == 8:
                c7 = x
            if i in ATTENDING:
                a, table = rms_norm(c7 if i >= 8 else x), VALUE_TABLES.get(i)
                values = None if table is None else self.gated_values(table, a, rows[table])
                attended = block.attn_scale * block.attn(a, values, gates, places, cache)
                x = self.resid_lambdas[i, 0] * x + self.post_lambdas[i, 0] * attended + gates[..., PAIRS[i], None] * x0
                if i > 0:
                    x = x + gates[..., PAIRS[i] + 1, None] * bigrams
            else:
                x = x + self.skip_lambda.sigmoid() * gates[..., SKIP, None] * c3
            x = self.resid_lambdas[i, 1] * x + self.post_lambdas[i, 1] * block.mlp(rms_norm(x))
        c9, x = x, self.last_block(x, c0, c7, bigrams, rows[4], gates, places, cache)
        m = self.network("mudd", 1, x).split(1, dim=-1)
        x = x + m[0] * c0 + m[1] * c7 + m[2] * c9 + m[3] * rows[0] + m[4] * c3
        return places.at_last_tokens(rms_norm(x))

    def forward(self, ids, cache=None, mask=None):
        return softcapped(self.lm_head(self.final_states(ids, cache, mask)).float(), self.config)


class TrainGptConfig(Config):
    @property
    def num_hidden_layers(self):
        """Number of layers whose keys and values a cache holds."""
        return len(ATTENDING)


class TrainGptForCausalLM(CausalLM):
    config_class = TrainGptConfig
    plain = TrainGpt
