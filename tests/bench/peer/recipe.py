"""The model and the optimizers of a recipe, and the unit of its gradients."""
from peer import normuon, optim
from peer.gpt import GPT
from peer.settings import row_length
from peer.speedrun_43 import Speedrun43


def make_model(s, dtype):
    return Speedrun43(s, dtype) if s.RECIPE == "speedrun_43" else GPT(s, dtype)


def make_optimizers(s, model, compiled):
    """Returns Adam and Muon, whose groups have the "base_lr" that schedules scale."""
    make = normuon.make_optimizers if s.RECIPE == "speedrun_43" else optim.make_optimizers
    optimizers = make(s, model, compiled)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers


def gradient_unit(s):
    """Returns what a micro-batch's mean loss is multiplied by: record 43 differentiates the sum over its tokens."""
    return row_length(s) if s.RECIPE == "speedrun_43" else 1
