"""The GPT of the recipes record, speedrun and last_record; the settings select its parts."""
import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

from peer.attention import Rotary, linear, rms_norm
from peer.block import Block
from peer.schedule import called_blocks
from peer.settings import row_length


class ProjectedTable(nn.Module):
    """A narrow embedding, a projection (if the widths differ) and a learned scale."""

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
    # Parts are created in the order in which their initial weights are drawn.
    def __init__(self, s, compute_dtype):
        super().__init__()
        self.compute_dtype = compute_dtype
        self.s, self.layers, self.softcap = s, s.NUM_LAYERS, s.LOGIT_SOFTCAP
        dim, layers = s.MODEL_DIM, s.NUM_LAYERS
        kv_dim = s.NUM_KV_HEADS * (dim // s.NUM_HEADS)
        hidden = int(s.MLP_MULT * dim)
        self.qo_bank = nn.Parameter(torch.zeros(2 * layers, dim, dim))
        self.kv_bank = nn.Parameter(torch.zeros(2 * layers, kv_dim, dim))
        self.mlp_up_bank = nn.Parameter(torch.zeros(layers, hidden, dim))
        self.mlp_down_bank = nn.Parameter(torch.zeros(layers, dim, hidden))
        self.tok_emb = nn.Embedding(s.VOCAB_SIZE, dim)
        self.bigram = self.smear = self.ve_shared = self.lm_head = None
        self.skip_weights = self.skip_gates = self.smear_gate = None
        if s.BIGRAM_VOCAB_SIZE:
            self.bigram = ProjectedTable(s.BIGRAM_VOCAB_SIZE, s.BIGRAM_DIM, dim, 0.05)
        if s.SMEAR_GATE:
            self.smear = Smear(dim)
        if s.UNET_SKIPS:
            skips = len(called_blocks(s, recurrent=True)) // 2
            self.skip_weights = nn.Parameter(torch.ones(skips, dim))
            if s.SKIP_GATES_ENABLED:
                self.skip_gates = nn.Parameter(torch.zeros(skips, dim))
        if s.PARALLEL_START_LAYER:
            self.parallel_post_lambdas = nn.Parameter(torch.ones(layers, 2, 2))
            self.parallel_resid_lambdas = nn.Parameter(torch.full((layers, 2), 1.1))
        self.rotary = Rotary(s, row_length(s))
        self.blocks = nn.ModuleList(Block(s, layer) for layer in range(layers))
        self.ve_layers = [int(i) for i in s.VE_LAYERS.split(",")] if s.VE_ENABLED else []
        if self.ve_layers:
            self.ve_shared = ProjectedTable(s.VOCAB_SIZE, s.VE_DIM, kv_dim, 0.1, std=0.01)
            self.ve_layer_scales = nn.ParameterList(torch.ones(1) for _ in self.ve_layers)
        if not s.TIE_EMBEDDINGS:
            # Starts at zero in all recipes; the records still draw it, which advances the generator.
            shape = dict(in_features=dim, out_features=s.VOCAB_SIZE, bias=False)
            self.lm_head = (
                nn.utils.skip_init(nn.Linear, **shape) if s.RECIPE == "speedrun" else nn.Linear(**shape)
            )
        if s.SMEAR_GATE_ENABLED:
            self.smear_gate = nn.Linear(s.GATE_WINDOW, 1, bias=False)
            self.smear_lambda = nn.Parameter(torch.zeros(1))
        self.init_weights(s)
        if compute_dtype == torch.bfloat16:
            for module in self.modules():
                if isinstance(module, nn.Embedding):
                    module.to(torch.bfloat16)

    @torch.no_grad()
    def init_weights(self, s):
        for module in (self.lm_head, self.smear_gate):
            if module is not None:
                module.weight.zero_()
        if s.TIE_EMBEDDINGS:
            nn.init.normal_(self.tok_emb.weight, std=s.TIED_EMBED_INIT_STD)
        speedrun = s.RECIPE == "speedrun"
        layers = self.layer_weights(torch.float32)
        drawn = [(q, k, v, out, up, down) if speedrun else (q, k, v, up) for q, k, v, out, up, down in layers]
        if s.RECIPE == "last_record":
            drawn = [layer[:3] for layer in drawn] + [layer[3:] for layer in drawn]
        for weight in itertools.chain.from_iterable(drawn):
            if speedrun:
                nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
            else:
                nn.init.orthogonal_(weight)
        for _, _, _, out, _, down in layers:
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
        """Q, K, V, output, up and down of every layer. A bank is cast and unbound in one operation: with indexing by layer,
        its gradient would be a sum of whole banks of zeros."""
        banks = (self.qo_bank, self.kv_bank, self.mlp_up_bank, self.mlp_down_bank)
        qo, kv, up, down = (bank.to(dtype).unbind(0) for bank in banks)
        n = self.layers
        return [(qo[i], kv[i], kv[n + i], qo[n + i], up[i], down[i]) for i in range(n)]

    def embed(self, ids):
        x = self.tok_emb(ids).to(self.compute_dtype)
        if self.bigram is not None:
            rows = bigram_rows(ids, self.bigram.embed.num_embeddings)
            x = x + self.bigram(rows, self.compute_dtype)
        if self.smear_gate is not None:
            x = self.gated_smear(x, ids)
        x = rms_norm(x)
        return x if self.smear is None else self.smear(x)

    def gated_smear(self, x, ids):
        """Adds to each token the previous one of its document, weighted by a gate on the token's first channels."""
        gate = linear(x[..., : self.s.GATE_WINDOW], self.smear_gate.weight).sigmoid()
        share = self.smear_lambda.to(x.dtype) * gate * (ids != self.s.BOS_ID).unsqueeze(-1)
        return x + share * F.pad(x[:, :-1], (0, 0, 1, 0))

    def with_skip(self, x, skip, row):
        weighted = self.skip_weights[row].to(x.dtype) * skip
        if self.skip_gates is None:
            return x + weighted
        return torch.lerp(weighted, x, self.skip_gates[row].sigmoid().to(x.dtype))

    def forward(self, inputs, targets, bounds, recurrent):
        """inputs, targets [B, T] → the mean loss, and what is differentiated. bounds: segment offsets of the only row, or
        None. recurrent: the looped blocks run more than once."""
        dtype = self.compute_dtype
        x = x0 = self.embed(inputs)
        second, first_v, skips = None, None, []  # second: the second lane; x is then the first
        values = self.ve_shared(inputs, dtype) if self.ve_shared is not None else None
        weights, order = self.layer_weights(dtype), called_blocks(self.s, recurrent)
        encoder = len(order) // 2
        for entry, i in enumerate(order):
            if second is None and entry >= encoder and 0 < self.s.PARALLEL_START_LAYER <= i:
                second = x
            if self.skip_weights is not None and entry >= encoder and skips:
                x = self.with_skip(x, skips.pop(), entry - encoder)
            value_embedding = None
            if i in self.ve_layers:
                scale = self.ve_layer_scales[self.ve_layers.index(i)]
                value_embedding = values * scale.to(dtype)
            context = self.rotary, bounds, value_embedding, first_v
            if second is None:
                x, own_v = self.blocks[i](x, x0, weights[i], *context)
            else:
                lambdas = self.parallel_resid_lambdas[i], self.parallel_post_lambdas[i]
                (x, second), own_v = self.blocks[i].in_lanes((x, second), x0, weights[i], lambdas, *context)
            if first_v is None:
                first_v = own_v
            if entry < encoder:
                skips.append(x)
        if second is not None:
            x = (x + second) / 2
        head = self.tok_emb.weight if self.lm_head is None else self.lm_head.weight
        logits = linear(rms_norm(x), head).flatten(0, 1)
        logits = self.softcap * torch.tanh(logits / self.softcap)
        loss = F.cross_entropy(logits.float(), targets.flatten())
        return loss.detach(), loss
