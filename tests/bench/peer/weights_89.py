"""Parameters of records 89 and 91 and their initial values, with the names, layouts and dtypes of their scripts."""
import math

import torch
from torch import nn

from peer.speedrun_43 import uniform_bound

LAYERS, HEADS, VALUE_TABLES = 11, 6, 5
# Rows of the networks' outputs: weights of earlier states, and gates, which the gates' scale multiplies.
MIXES, GATES, GATE_SCALE = 14, 41, 0.1


class Head(nn.Module):
    """The weight of the head, [D, V]."""

    def __init__(self, dim, vocab, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, vocab, dtype=dtype).normal_(std=0.005))


def constants(rows, values):
    """Returns a parameter [2, rows] with {(network, row): value}, divided by the gates' scale, and zeros."""
    filled = torch.zeros(2, rows)
    for at, value in values.items():
        filled[at] = value / GATE_SCALE
    return nn.Parameter(filled)


def mix_biases():
    last = {6: 2, 7: 2, 8: math.sqrt(1.1), 9: 1, 11: 0.05, 12: math.sqrt(1.1), 13: 1}
    return constants(MIXES, {(0, row): value for row, value in last.items()} | {(1, 1): -0.5})


def gate_biases():
    heads = {(j, row): 0.25 for j in (0, 1) for row in range(12, 18)}
    bigrams = {(j, row): 0.05 for j, end in ((0, 26), (1, 28)) for row in range(19, end, 2)}
    return constants(GATES, heads | bigrams | {(1, 28): 0.5} | {(1, row): 1 for row in range(29, 35)})


def draw_weights(model, s):
    """Adds the parameters to the model, in the order in which they are drawn."""
    dim, vocab, hidden = s.MODEL_DIM, s.VOCAB_SIZE, int(s.MLP_MULT * s.MODEL_DIM)
    qk_dim, bound, dtype = s.QK_HEAD_DIM or dim // HEADS, uniform_bound(dim), model.compute_dtype
    attentions = LAYERS - 1

    def uniform(*shape):
        return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def hidden_weights():
        return nn.Parameter(torch.stack([nn.Linear(dim, s.MUDD_DIM, bias=False).weight.detach() for _ in range(2)]))

    model.lm_head = Head(dim, vocab, dtype)
    model.embed = nn.Embedding(vocab, dim)
    model.value_embeds = nn.Parameter(torch.empty(VALUE_TABLES * vocab, dim, dtype=dtype).normal_().mul_(0.01))
    model.ve_gate_bank = nn.Parameter(torch.zeros(VALUE_TABLES, HEADS, 12))
    model.qk_bank = uniform(attentions * HEADS, 2 * qk_dim, dim)  # two heads in a matrix; of a layer Q's, then K's
    model.vo_bank = uniform(2 * attentions, dim, dim)
    model.mlp_bank = nn.Parameter(torch.zeros(LAYERS + 1, 2, hidden, dim))  # the last slot is unused
    for up, _ in model.mlp_bank.detach():
        up.uniform_(-bound, bound)
    model.smear_gate = nn.Linear(s.GATE_WINDOW, 1, bias=False)
    model.bigram_embed = nn.Embedding(s.BIGRAM_VOCAB_SIZE, dim)
    model.register_buffer("bigram_sign_table", torch.randn(s.BIGRAM_SIGN_ROWS, dim).sign())
    model.post_lambdas = nn.Parameter(torch.ones(LAYERS, 2))
    model.resid_lambdas = nn.Parameter(torch.full((LAYERS, 2), math.sqrt(1.1)))
    model.scalars = nn.Parameter(torch.tensor([0.5, 1.0] * LAYERS + [0.0, -1.5]))
    model.mudd_w1 = hidden_weights()
    model.mudd_w2 = nn.Parameter(torch.zeros(2, MIXES, s.MUDD_DIM))
    model.mudd_b2 = mix_biases()
    model._mudd_gate_scale = nn.Parameter(torch.tensor(GATE_SCALE))
    model.mudd_gate_w1 = hidden_weights()
    model.mudd_gate_w2 = nn.Parameter(torch.zeros(2, GATES, s.MUDD_DIM))
    model.mudd_gate_b2 = gate_biases()
    with torch.no_grad():
        model.smear_gate.weight.zero_()
        model.bigram_embed.weight.zero_()
        if s.UNTIE_EMBEDDINGS_AT:
            model.embed.weight.copy_(model.lm_head.weight.t())
    store_in(model, dtype)


def store_in(model, dtype):
    """Stores in the dtype all but the banks, which are cast where they are used, and the numbers."""
    kept = ("qk_bank", "vo_bank", "mlp_bank", "post_lambdas", "resid_lambdas", "scalars", "_mudd_gate_scale")
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if name not in kept:
            tensor.data = tensor.data.to(dtype)
