"""The GPT of both recipes, its parts present or not by the settings."""
import math

import torch
import torch.nn.functional as F
from torch import nn

from peer.block import Block, Rotary, linear, rms_norm


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
        for q, k, v, out, up, down in self.layer_weights(torch.float32):
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

    def layer_weights(self, dtype):
        """Q, K, V, output, up and down of every layer. A bank is cast and taken apart in one piece:
        indexed layer by layer, its gradient would be a sum of whole banks of zeros."""
        banks = (self.qo_bank, self.kv_bank, self.mlp_up_bank, self.mlp_down_bank)
        qo, kv, up, down = (bank.to(dtype).unbind(0) for bank in banks)
        n = self.layers
        return [(qo[i], kv[i], kv[n + i], qo[n + i], up[i], down[i]) for i in range(n)]

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
        weights, half = self.layer_weights(dtype), self.layers // 2
        for i, block in enumerate(self.blocks):
            if self.skip_weights is not None and i >= half and skips:
                x = x + self.skip_weights[i - half].to(dtype) * skips.pop()
            value_embedding = None
            if i in self.ve_layers:
                scale = self.ve_layer_scales[self.ve_layers.index(i)]
                value_embedding = values * scale.to(dtype)
            x, own_v = block(x, x0, weights[i], self.rotary, value_embedding, first_v)
            if first_v is None:
                first_v = own_v
            if i < half:
                skips.append(x)
        head = self.tok_emb.weight if self.lm_head is None else self.lm_head.weight
        logits = linear(rms_norm(x), head).flatten(0, 1)
        logits = self.softcap * torch.tanh(logits / self.softcap)
        return F.cross_entropy(logits.float(), targets.flatten())
