"""The GPT of RECIPE=speedrun_89 and speedrun_91, records 89 and 91 of the GPT-124M speedrun, with the names and dtypes of
their scripts."""
import torch
import torch.nn.functional as F
from torch import nn

from peer.attention import linear, rms_norm
from peer.attention_89 import Stage, composed, with_offset, without_own_value
from peer.gpt import bigram_rows
from peer.speedrun_43 import smeared
from peer.stages import rotations
from peer.targets import losses, read_prefixes
from peer.weights_89 import HEADS, LAYERS, VALUE_TABLES, draw_weights

WITHOUT_ATTENTION, LAST = 6, 10
PAIRED, LONG = (0, 2, 5, 9), (3, LAST)
TABLE_OF = {1: 0, 2: 1, 8: 2, 9: 3}  # value table by layer; the last layer mixes the last table into its values
SMEAR, SKIP = 2 * LAYERS, 2 * LAYERS + 1  # in the vector of scalars; layers have pairs of them
# Rows of the gates' networks, the first on the embedding, the second on the input of layer 4. Of each head:
EXCLUSIVE = {1: 0, 3: 6, 4: 0, 7: 6}
HEAD_GATE = {3: 12, LAST: 12}
COMPOSE = 29  # six weights before the mix of heads, six after it
# Of each token: a gate of the embedding and one of the bigram embedding by layer, and one of the skip.
PAIRS = {0: 18, 1: 20, 2: 22, 3: 24, 4: 18, 5: 20, 7: 22, 8: 24, 9: 26}
SKIP_GATE = 28
LAST_MIXES, FINAL_MIXES = 14, 5


def network(x, w1, w2, b2):
    return F.linear(F.gelu(F.linear(x, w1)), w2, b2)


def column(x, i):
    return x[..., i : i + 1]


class Speedrun89(nn.Module):
    def __init__(self, s, compute_dtype):
        super().__init__()
        self.compute_dtype, self.transposed_outputs = compute_dtype, s.RECIPE == "speedrun_91"
        self.softcap, self.shift = s.LOGIT_SOFTCAP, s.LOGIT_SOFTCAP_SHIFT
        self.temperature = s.LOGIT_SOFTCAP_TEMPERATURE or s.LOGIT_SOFTCAP
        self.vocab, self.dc_window, self.slope = s.VOCAB_SIZE, s.DC_WINDOW, s.MLP_NEGATIVE_SLOPE
        draw_weights(self, s)
        qk_dim = s.QK_HEAD_DIM or s.MODEL_DIM // HEADS
        self.stages = nn.ModuleList(
            Stage(stage, *rotation, compute_dtype) for stage, rotation in zip(s.stages, rotations(s, qk_dim))
        )
        prefixes = read_prefixes(s) if any(stage.has_prefix for stage in self.stages) else None
        self.register_buffer("prefixes", prefixes, persistent=False)

    def layer_weights(self):
        """Q with K, V, output, up and down of every layer, those of attention times their scales. A bank is cast and
        unbound in one operation: with indexing by layer, its gradient would be a sum of whole banks of zeros."""
        qk, vo, mlp = (bank.to(self.compute_dtype) for bank in (self.qk_bank, self.vo_bank, self.mlp_bank))
        qk = iter(qk.view(LAYERS - 1, -1, qk.size(-1)).unbind())
        vo, mlp = iter(vo.unbind()), iter(mlp.flatten(0, 1).unbind())
        scales = iter(self.scalars.unbind())
        weights = []
        for i in range(LAYERS):
            inner, outer = next(scales), next(scales)
            attention = (None,) * 3
            if i != WITHOUT_ATTENTION:
                attention = inner * next(qk), inner * next(vo), outer * next(vo)
            weights.append((*attention, next(mlp), next(mlp)))
        return weights

    def bigrams(self, ids):
        """Rows of the bigram table, times their signs. As in the script, the second token's row has a hash of the last
        index in the place of the first token."""
        rows = self.bigram_embed.weight.size(0)
        hashed = bigram_rows(F.pad(ids[:, 1:], (1, 0), value=rows - 1), rows)
        signs = F.pad(torch.bitwise_xor(ids[:, 1:], ids[:, :-1]) % self.bigram_sign_table.size(0), (1, 0))
        return self.bigram_embed(hashed) * F.embedding(signs, self.bigram_sign_table)

    def attention(self, i, a, weights, extra_values, gates, stage, bounds):
        """The output of layer i's attention to a. extra_values [B, T, H, d] or None; gates: of the layer's network."""
        qk, own, out = weights[:3]
        paired, is_long = i in PAIRED, i in LONG
        q, k = linear(a, qk).unflatten(-1, (2 * HEADS, -1)).chunk(2, dim=2)
        q, k = (stage.rotate(rms_norm(x), paired) for x in (q, k))
        v = linear(a, own).unflatten(-1, (HEADS, -1))
        if is_long:
            k = with_offset(k)
        if extra_values is not None:
            v = v + extra_values

        def of_heads(row):
            return gates[..., row : row + HEADS]

        y = stage.attend(q, k, v, bounds, is_long, paired)
        if i == LAST:
            mixes = of_heads(COMPOSE), of_heads(COMPOSE + HEADS)
            y = y + composed(q, k, v, *mixes, bounds, stage.scale, self.dc_window)
        if i in EXCLUSIVE:
            y = without_own_value(y, v, of_heads(EXCLUSIVE[i]))
        if i in HEAD_GATE:
            y = y * of_heads(HEAD_GATE[i]).unsqueeze(-1)
        return linear(y.flatten(2), out.t() if self.transposed_outputs else out)

    def mlp(self, x, weights):
        hidden = linear(rms_norm(x), weights[3])
        hidden = F.leaky_relu(hidden, self.slope) if self.slope else F.relu(hidden)
        return linear(hidden.square(), weights[4].t())

    def gated_values(self, i, a, rows):
        """Rows of layer i's value table by head, weighted by gates on the first channels of a and of the rows."""
        gate = linear(torch.cat([a[..., :6], rows[..., :6]], dim=-1), self.ve_gate_bank[TABLE_OF[i]])
        return 2 * gate.sigmoid().unsqueeze(-1) * rows.unflatten(-1, (HEADS, -1))

    def gates(self, j, x):
        return self._mudd_gate_scale * network(x, self.mudd_gate_w1[j], self.mudd_gate_w2[j], self.mudd_gate_b2[j])

    def mixes(self, j, x, count):
        """Weights of earlier states at each token (MUDD, Xiao et al. 2025)."""
        found = 0.1 * network(x, self.mudd_w1[j], self.mudd_w2[j, :count], self.mudd_b2[j, :count])
        return found.split(1, dim=-1)

    def forward(self, inputs, targets, bounds, stage, target_weights):
        """inputs, targets [1, T] → the mean loss of the next tokens, and the sum over tokens that is differentiated.
        bounds: segment offsets of the row. stage: index of the stage. target_weights: see losses()."""
        stage, weights = self.stages[stage], self.layer_weights()
        smear, skip = self.scalars[SMEAR], self.scalars[SKIP]
        x0 = rms_norm(smeared(self.embed(inputs), self.smear_gate.weight, smear))
        beta = self.bigrams(inputs)
        tables = torch.arange(VALUE_TABLES, device=inputs.device).view(-1, 1, 1)
        values = F.embedding(inputs + self.vocab * tables, self.value_embeds).unbind()
        gates = self.gates(0, x0)
        x = c0 = x0 + column(gates, PAIRS[0] + 1) * beta
        for i in range(LAST):
            if i == 4:
                c3, gates = x, self.gates(1, x)
            if i == 8:
                c7, c7_norm = x, rms_norm(x)
            resid, post = self.resid_lambdas[i], self.post_lambdas[i]
            if i == WITHOUT_ATTENTION:
                x = x + skip.sigmoid() * column(gates, SKIP_GATE) * c3
            else:
                a = rms_norm(x) if i < 8 else c7_norm
                extra = self.gated_values(i, a, values[TABLE_OF[i]]) if i in TABLE_OF else None
                y = self.attention(i, a, weights[i], extra, gates, stage, bounds)
                x = resid[0] * x + post[0] * y + column(gates, PAIRS[i]) * x0
                if i > 0:
                    x = x + column(gates, PAIRS[i] + 1) * beta
            x = resid[1] * x + post[1] * self.mlp(x, weights[i])
        c9 = x
        m = self.mixes(0, x, LAST_MIXES)
        of_table = torch.cat([m[6].expand(-1, -1, HEADS // 2), m[7].expand(-1, -1, HEADS // 2)], dim=-1)
        extra = of_table.unsqueeze(-1) * values[-1].unflatten(-1, (HEADS, -1))
        extra = extra + (m[0] * c0 + m[1] * c7 + m[2] * x).unflatten(-1, (HEADS, -1))
        x = (1 + m[5]) * x + m[3] * c0 + m[4] * c7
        y = self.attention(LAST, c7_norm, weights[LAST], extra, gates, stage, bounds)
        x = m[8] * x + m[9] * y + m[10] * c0 + m[11] * beta
        x = m[12] * x + m[13] * self.mlp(x, weights[LAST])
        m = self.mixes(1, x, FINAL_MIXES)
        x = x + m[0] * c0 + m[1] * c7 + m[2] * c9 + m[3] * values[0] + m[4] * c3
        logits = linear(rms_norm(x), self.lm_head.weight.t()).flatten(0, 1).float()
        logits = self.softcap * torch.tanh((logits + self.shift) / self.temperature)
        return losses(logits, targets.flatten(), target_weights, self.prefixes if stage.has_prefix else None)
