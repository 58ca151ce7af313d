"""Muon for the banks, AdamW for everything else, and their schedules."""
import math

import torch


def newton_schulz(g, steps):
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = g.size(-2) > g.size(-1)
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


def muon_update(bank, gradient, momentum, lr, mu, weight_decay, steps):
    """lr and mu are tensors: as numbers they would have this compiled anew in every step."""
    gradient = gradient.to(momentum.dtype).float()
    # In fp32, as a half-precision product would round mu itself, 0.99 to 0.98828.
    momentum.copy_(momentum.float() * mu + gradient)
    update = newton_schulz((momentum.float() * mu + gradient).to(momentum.dtype), steps)
    shape = math.sqrt(max(1, bank.size(-2) / bank.size(-1)))
    bank.copy_(bank * (1 - lr * weight_decay) - lr * shape * update)


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum, weight_decay, steps, dtype, compiled):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.steps, self.dtype, self.update = steps, dtype, compiled(muon_update)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p, dtype=self.dtype)
                lr, mu = (torch.full((), group[name], device=p.device) for name in ("lr", "momentum"))
                self.update(p, p.grad, state["momentum"], lr, mu, group["weight_decay"], self.steps)


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
        dict(params=tables, lr=table_lr, weight_decay=s.ADAM_WD),
        dict(params=scalars, lr=s.SCALAR_LR, weight_decay=s.ADAM_WD),
        dict(params=heads, lr=s.HEAD_LR, weight_decay=0.0),
    ]
    adam = torch.optim.AdamW(
        [group for group in groups if group["params"]],
        betas=(s.BETA1, s.BETA2),
        eps=s.ADAM_EPS,
        fused=True,
    )
    dtype = model.compute_dtype
    muon = Muon(
        banks, s.MATRIX_LR, s.MUON_MOMENTUM, s.MUON_WD, s.MUON_BACKEND_STEPS, dtype, compiled
    )
    for optimizer in (adam, muon):
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return adam, muon


def lr_scale(s, step):
    if s.WARMDOWN_ITERS <= 0 or step < s.ITERATIONS - s.WARMDOWN_ITERS:
        return 1.0
    return max(s.ITERATIONS - step, 0) / s.WARMDOWN_ITERS


def muon_momentum(s, step):
    if s.MUON_MOMENTUM_WARMUP_STEPS <= 0:
        return s.MUON_MOMENTUM
    progress = min(step / s.MUON_MOMENTUM_WARMUP_STEPS, 1)
    return (1 - progress) * s.MUON_MOMENTUM_WARMUP_START + progress * s.MUON_MOMENTUM
