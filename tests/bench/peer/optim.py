"""Muon for the banks, AdamW for everything else."""
import math

import torch


QUINTIC = (3.4445, -4.7750, 2.0315)
# Polar Express coefficients (Amsel et al. 2025), one row per iteration.
POLAR_EXPRESS = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)


def newton_schulz(g, coefficients, safety=1.0, epsilon=1e-7):
    tall = g.size(-2) > g.size(-1)
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * safety + epsilon)
    for a, b, c in coefficients:
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def muon_update(bank, gradient, momentum, lr, mu, weight_decay, coefficients, normalize_rows):
    """lr and mu are tensors: numbers would cause a recompilation in every step."""
    gradient = gradient.to(momentum.dtype).float()
    # In fp32, because half-precision arithmetic would round mu itself, 0.99 to 0.98828.
    momentum.copy_(momentum.float() * mu + gradient)
    update = (momentum.float() * mu + gradient).to(momentum.dtype)
    if normalize_rows:
        update = update / update.norm(dim=-1, keepdim=True).clamp(min=1e-7)
    update = newton_schulz(update, coefficients)
    shape = math.sqrt(max(1, bank.size(-2) / bank.size(-1)))
    bank.copy_(bank * (1 - lr * weight_decay) - lr * shape * update)


class Muon(torch.optim.Optimizer):
    def __init__(self, s, params, dtype, compiled):
        super().__init__(params, dict(lr=s.MATRIX_LR, momentum=s.MUON_MOMENTUM, weight_decay=s.MUON_WD))
        steps = s.MUON_BACKEND_STEPS
        coefficients = POLAR_EXPRESS[:steps] if s.MUON_COEFFICIENTS == "polar_express" else (QUINTIC,) * steps
        self.how = coefficients, s.MUON_ROW_NORMALIZE
        self.dtype, self.update = dtype, compiled(muon_update)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p, dtype=self.dtype)
                lr, mu = (torch.full((), group[name], device=p.device) for name in ("lr", "momentum"))
                self.update(p, p.grad, state["momentum"], lr, mu, group["weight_decay"], *self.how)


def make_optimizers(s, model, compiled):
    tables, scalars, heads, banks = [], [], [], []
    for name, parameter in model.named_parameters():
        if name.endswith("_bank"):
            banks.append(parameter)
        elif name == "lm_head.weight":
            heads.append(parameter)
        elif name == "tok_emb.weight" or name.endswith(".embed.weight"):
            tables.append(parameter)
        else:
            scalars.append(parameter)
    table_lr = s.TIED_EMBED_LR if s.TIE_EMBEDDINGS else s.EMBED_LR
    groups = [
        dict(params=tables, lr=table_lr, weight_decay=s.EMBED_WD),
        dict(params=scalars, lr=s.SCALAR_LR, weight_decay=s.ADAM_WD),
        dict(params=heads, lr=s.HEAD_LR, weight_decay=0.0),
    ]
    adam = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        betas=(s.BETA1, s.BETA2),
        eps=s.ADAM_EPS,
        fused=True,
    )
    muon = Muon(s, banks, model.compute_dtype, compiled)
    return adam, muon
