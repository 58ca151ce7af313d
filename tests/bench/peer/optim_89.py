"""Optimizers of records 89 and 91: NorMuon, and Adam with cautious weight decay, whose token table and head are one table
in the first part of a run."""
import math

import numpy as np
import torch

from peer.normuon import NorMuon
from peer.tokens import on_device


def adam_update(params, gradients, means, squares, sizes, decays, betas, eps):
    """Updates the parameters. sizes and decays [parameters] are tensors: numbers would cause a recompilation in every
    step."""
    for p, g, m, v, size, decay, (beta1, beta2) in zip(
        params, gradients, means, squares, sizes.unbind(), decays.unbind(), betas
    ):
        g, value = g.float(), p.float()
        m.copy_(beta1 * m + (1 - beta1) * g)
        v.copy_(beta2 * v + (1 - beta2) * g * g)
        update = size * m / (v.sqrt() + eps)
        update = update + torch.where(update * value > 0, decay * value, 0.0)
        p.copy_(value - update)


class TiedAdam(torch.optim.Optimizer):
    """Adam in fp32, one parameter per group, with eps added to the root of v before the bias correction, and a decay
    by the square of the rate where it has the sign of the update. For the first `untied_after` updates `embed` is the
    transposed `head`: it adds its gradient and copies the result; then it continues from the moments of the head."""

    def __init__(self, groups, head, embed, untied_after, eps, compiled):
        super().__init__(groups, dict(lr=0.0, betas=(0.9, 0.99), weight_decay=0.0))
        self.head, self.embed, self.untied_after, self.eps = head, embed, untied_after, eps
        self.update = compiled(adam_update)

    def start(self, p):
        return {"updates": 0, **{name: torch.zeros_like(p, dtype=torch.float32) for name in ("mean", "square")}}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            p = group["params"][0]
            self.state[p] = self.state[p] or self.start(p)
        of_head = self.state[self.head]
        tied = of_head["updates"] < self.untied_after
        if tied:
            self.head.grad += self.embed.grad.t()
        self.update_groups([group for group in self.param_groups if not (tied and group["params"][0] is self.embed)])
        if tied:
            self.embed.copy_(self.head.t())
        if tied and of_head["updates"] == self.untied_after:
            moments = {name: of_head[name].t().contiguous() for name in ("mean", "square")}
            self.state[self.embed] = {"updates": of_head["updates"], **moments}

    def update_groups(self, groups):
        params = [group["params"][0] for group in groups]
        states = [self.state[p] for p in params]
        sizes, decays = [], []
        for group, state in zip(groups, states):
            state["updates"] += 1
            beta1, beta2 = group["betas"]
            correction = math.sqrt(1 - beta2 ** state["updates"]) / (1 - beta1 ** state["updates"])
            sizes.append(group["lr"] * correction)
            decays.append(group["lr"] ** 2 * group["weight_decay"])
        means, squares = ([state[name] for state in states] for name in ("mean", "square"))
        sizes, decays = (on_device(np.array(numbers, np.float32), params[0].device) for numbers in (sizes, decays))
        betas = [group["betas"] for group in groups]
        self.update(params, [p.grad for p in params], means, squares, sizes, decays, betas, self.eps)


def untied_after(s):
    """Returns after how many of Adam's updates the token table and the head are two."""
    return (s.UNTIE_EMBEDDINGS_AT + 1) // s.ADAM_EVERY if s.UNTIE_EMBEDDINGS_AT else 0


def make_optimizers(s, model, compiled):
    qk, vo, mlp = model.qk_bank, model.vo_bank, model.mlp_bank
    up = math.sqrt(mlp.size(2) / mlp.size(3))
    muon = NorMuon(s, [
        dict(params=[qk], shape=qk.shape),
        dict(params=[vo], shape=vo.shape, by_row=True),
        dict(params=[mlp], shape=mlp.flatten(0, 1).shape, by_row=True, multiplier=[up, 2 * up] * mlp.size(0)),
    ], model.compute_dtype, compiled)

    def group(p, lr, decay=0, betas=(0.9, 0.99)):
        return dict(params=[p], lr=lr, weight_decay=decay * s.ADAM_WD, betas=betas)

    head, embed = model.lm_head.weight, model.embed.weight
    adam = TiedAdam([
        *(group(p, s.HEAD_LR, 150, (0.5, 0.95)) for p in (head, embed)),
        *(group(p, s.EMBED_LR, 5, (0.75, 0.95)) for p in (model.value_embeds, model.bigram_embed.weight)),
        group(model.ve_gate_bank, s.HEAD_LR, 1),
        group(model.smear_gate.weight, 0.01 * s.HEAD_LR),
        group(model.post_lambdas, s.HEAD_LR, betas=(0.9, 0.95)),
        group(model.resid_lambdas, s.SCALAR_LR, betas=(0.9, 0.95)),
        group(model.scalars, s.SCALAR_LR),
        *(group(p, 0.25 * s.HEAD_LR, 1) for p in (model.mudd_w1, model.mudd_w2)),
        group(model.mudd_b2, 0.25 * s.HEAD_LR),
        group(model._mudd_gate_scale, 0.1 * s.HEAD_LR),
        *(group(p, 0.1 * s.HEAD_LR, 1) for p in (model.mudd_gate_w1, model.mudd_gate_w2)),
        group(model.mudd_gate_b2, 0.1 * s.HEAD_LR),
    ], head, embed, untied_after(s), s.ADAM_EPS, compiled)
    return adam, muon
