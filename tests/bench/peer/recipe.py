"""The model and the optimizers of a recipe."""
from peer import optim, optim_43
from peer.gpt import GPT
from peer.speedrun_43 import Speedrun43

MODELS = {"speedrun_43": Speedrun43}
OPTIMIZERS = {"speedrun_43": optim_43}


def make_model(s, dtype):
    return MODELS.get(s.RECIPE, GPT)(s, dtype)


def make_optimizers(s, model, compiled):
    """Returns Adam and Muon, whose groups have the "base_lr" that schedules scale."""
    optimizers = OPTIMIZERS.get(s.RECIPE, optim).make_optimizers(s, model, compiled)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers
