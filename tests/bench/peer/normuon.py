"""Record 43's optimizers: NorMuon with cautious decay, and Adam with its script's place of eps."""
import math

import torch

from peer.optim import POLAR_EXPRESS, newton_schulz

LEAST = 1e-10


def momentum_steps(gradients, momenta, mu):
    """Updates each momentum, an average, and returns the averages with the gradient counted once more."""
    steps = []
    for g, b in zip(gradients, momenta):
        b.add_((1 - mu) * (g - b))
        steps.append(g + mu * (b - g))
    return steps


def normalized(x, seconds, beta2):
    """Divides by the root of a mean of squares, one per column (per row of taller matrices), averaged over steps in
    `seconds`, and restores each matrix's norm. x [parameters, matrices of one, rows, columns] fp32."""
    mean = x.square().mean(-1 if x.size(-2) > x.size(-1) else -2, keepdim=True)
    for q, own in zip(seconds, mean):
        q.add_((1 - beta2) * (own - q))
    y = x * torch.stack(list(seconds)).float().clamp(min=LEAST).rsqrt()
    norm, new_norm = (part.norm(dim=(-2, -1), keepdim=True) for part in (x, y))
    return y * (norm / new_norm.clamp(min=LEAST))


def as_matrices(p, matrices):
    """Views a parameter [rows, columns] as that many matrices, as which it is in memory."""
    return p.view(matrices, -1, p.size(1) // matrices)


def normuon_update(
    params, gradients, momenta, seconds, lr, mu, matrices, multiplier, weight_decay, beta2, coefficients, dtype
):
    """Updates parameters of one shape. lr and mu are tensors: numbers would cause a recompilation in every step. dtype: of
    the orthogonalization and of the update."""
    steps = [as_matrices(step.to(dtype), matrices) for step in momentum_steps(gradients, momenta, mu)]
    x = newton_schulz(torch.stack(steps), coefficients, safety=1.02, epsilon=1e-6)
    x = normalized(x.float(), seconds, beta2)
    for p, own in zip(params, x):
        value = as_matrices(p, matrices)
        decay = torch.where(own * value >= 0, lr * weight_decay * value, 0.0)
        update = (own + decay).to(dtype)
        value.sub_(lr * multiplier * update.to(value.dtype))


class NorMuon(torch.optim.Optimizer):
    """Each group has parameters of one shape, which are updated together. `matrices`: how many a parameter holds."""

    def __init__(self, s, groups, dtype, compiled):
        defaults = dict(lr=s.MATRIX_LR, momentum=s.MUON_MOMENTUM, weight_decay=s.MUON_WD, matrices=1, multiplier=1.0)
        super().__init__(groups, defaults)
        self.how = s.MUON_BETA2, POLAR_EXPRESS[: s.MUON_BACKEND_STEPS], dtype
        self.update = compiled(normuon_update)

    def start(self, p, matrices):
        """Returns the state of a parameter."""
        count, rows, columns = as_matrices(p, matrices).shape
        second = (count, rows, 1) if rows > columns else (count, 1, columns)
        return {"momentum": torch.zeros_like(p), "second": p.new_zeros(second)}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = group["params"]
            for p in params:
                self.state[p] = self.state[p] or self.start(p, group["matrices"])
            momenta, seconds = ([self.state[p][name] for p in params] for name in ("momentum", "second"))
            lr, mu = (torch.full((), group[name], device=params[0].device) for name in ("lr", "momentum"))
            how = group["matrices"], group["multiplier"], group["weight_decay"], *self.how
            self.update(params, [p.grad for p in params], momenta, seconds, lr, mu, *how)


class ScriptAdam(torch.optim.AdamW):
    """AdamW, but eps is added to the root of v before the bias correction, as in the script."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        for group in self.param_groups:
            group["updates"], group["script_eps"] = 0, group["eps"]

    def step(self):
        for group in self.param_groups:
            group["updates"] += 1
            group["eps"] = group["script_eps"] / math.sqrt(1 - group["betas"][1] ** group["updates"])
        super().step()


def make_optimizers(s, model, compiled):
    blocks = model.blocks.values()
    attending = [block.attn for block in blocks if block.attn is not None]
    muon = NorMuon(s, [
        dict(params=[attn.qkvo_w for attn in attending], matrices=4),
        dict(params=[block.mlp.c_fc for block in blocks], multiplier=2.0),
        dict(params=[block.mlp.c_proj for block in blocks]),
        dict(params=[attn.attn_gate.weight for attn in attending]),
        dict(params=[model.smear_gate.weight]),
    ], model.compute_dtype, compiled)
    tables = [model.embed.weight, *(table.weight for table in model.value_embeds)]
    groups = [
        dict(params=tables, lr=s.EMBED_LR),
        dict(params=[model.scalars], lr=s.SCALAR_LR),
        dict(params=[model.lm_head.weight], lr=s.HEAD_LR),
    ]
    return ScriptAdam(groups, betas=(s.BETA1, s.BETA2), eps=s.ADAM_EPS, weight_decay=s.ADAM_WD, fused=True), muon
