"""The losses of records 89 and 91: besides the next token, further tokens and the prefix are targets of one softmax."""
import json
import pathlib

import torch
import torch.nn.functional as F

from peer.schedule import schedule_steps, stage_at
from peer.stages import has_prefix


def read_prefixes(s):
    """Returns PREFIX_TABLE, for each token the id of the longest token that is a proper prefix of it; -1: none."""
    table = json.loads(pathlib.Path(s.PREFIX_TABLE).read_text())
    return torch.tensor(table + [-1] * (s.VOCAB_SIZE - len(table)))


def target_weights(s, step):
    """Returns the weights of a token's targets: of the next tokens, the nearest first, and of the prefix, if the stage has
    one."""
    stage, steps = s.stages[stage_at(s, step)], schedule_steps(s)
    return stage.MTP_WEIGHTS.at(step, steps) + (stage.PREFIX_WEIGHT.at(step, steps) if has_prefix(stage) else [])


def losses(logits, targets, weights, prefixes):
    """Returns the mean loss of the next tokens, and the sum over tokens that is differentiated. logits [T, V] fp32; targets
    [T]; weights: of the next tokens, the nearest first, and, with `prefixes` [V], of the prefix of the nearest. Beyond the
    row's end there is no target, but its weight keeps its share of the softmax's gradient, as in the script."""
    token = torch.arange(logits.size(-1), device=logits.device)
    weights, whole = weights.unbind(), weights.sum()
    shares = torch.zeros_like(logits)
    if prefixes is not None:
        *weights, of_prefix = weights
        prefix = prefixes[targets]
        whole = whole - of_prefix * (prefix < 0)
        shares = shares + of_prefix * (token == prefix.unsqueeze(-1))
    for ahead, weight in enumerate(weights):
        further = F.pad(targets[ahead:], (0, ahead), value=-1)
        # A comparison, since torch.compile fuses its gradient with the softmax's, which it cannot do with that of gather().
        shares = shares + weight * (token == further.unsqueeze(-1))
    normalizer = logits.logsumexp(-1)
    loss = (normalizer - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)).mean()
    return loss.detach(), (whole * normalizer).sum() - (shares * logits).sum()
