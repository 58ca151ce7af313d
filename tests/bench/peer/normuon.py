"""NorMuon with cautious weight decay, as in the scripts of records 43, 89 and 91."""
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
    """Divides by the root of a mean of squares, per row or column as in `seconds`, where it is averaged over steps, and
    restores each matrix's norm. x [parameters, matrices of one, rows, columns] fp32."""
    mean = x.square().mean(-1 if seconds[0].size(-1) == 1 else -2, keepdim=True)
    for q, own in zip(seconds, mean):
        q.add_((1 - beta2) * (own - q))
    y = x * torch.stack(list(seconds)).float().clamp(min=LEAST).rsqrt()
    norm, new_norm = (part.norm(dim=(-2, -1), keepdim=True) for part in (x, y))
    return y * (norm / new_norm.clamp(min=LEAST))


def normuon_update(
    params, gradients, momenta, seconds, lr, mu, multiplier, shape, weight_decay, beta2, coefficients, dtype
):
    """Updates parameters of one shape. lr and mu are tensors: numbers would cause a recompilation in every step. dtype: of
    the orthogonalization and of the update."""
    steps = [step.to(dtype).view(shape) for step in momentum_steps(gradients, momenta, mu)]
    x = newton_schulz(torch.stack(steps), coefficients, safety=1.02, epsilon=1e-6)
    x = normalized(x.float(), seconds, beta2)
    for p, own in zip(params, x):
        value = p.view(shape)
        decay = torch.where(own * value >= 0, lr * weight_decay * value, 0.0)
        update = (own + decay).to(dtype)
        value.sub_(lr * multiplier * update.to(value.dtype))


class NorMuon(torch.optim.Optimizer):
    """Each group has parameters of one shape, which are updated together. `shape`: [matrices, rows, columns], as which a
    parameter is in memory; `multiplier`: of the rate, of all matrices or of each; `by_row`: matrices have a second moment
    per row, else per column."""

    def __init__(self, s, groups, dtype, compiled):
        defaults = dict(lr=s.MATRIX_LR, momentum=s.MUON_MOMENTUM, weight_decay=s.MUON_WD, multiplier=1.0, by_row=False)
        super().__init__(groups, defaults)
        for group in self.param_groups:
            multiplier = torch.tensor(group["multiplier"], device=group["params"][0].device)
            group["multiplier"] = multiplier.view(-1, 1, 1)
        self.how = s.MUON_BETA2, POLAR_EXPRESS[: s.MUON_BACKEND_STEPS], dtype
        self.update = compiled(normuon_update)

    def start(self, p, shape, by_row):
        """Returns the state of a parameter."""
        matrices, rows, columns = shape
        second = (matrices, rows, 1) if by_row else (matrices, 1, columns)
        return {"momentum": torch.zeros_like(p), "second": p.new_zeros(second)}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = group["params"]
            for p in params:
                self.state[p] = self.state[p] or self.start(p, group["shape"], group["by_row"])
            momenta, seconds = ([self.state[p][name] for p in params] for name in ("momentum", "second"))
            lr, mu = (torch.full((), group[name], device=params[0].device) for name in ("lr", "momentum"))
            how = group["multiplier"], group["shape"], group["weight_decay"], *self.how
            self.update(params, [p.grad for p in params], momenta, seconds, lr, mu, *how)
