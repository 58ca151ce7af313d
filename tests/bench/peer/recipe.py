"""The model and the optimizers of a recipe, and what its passes take besides the tokens."""
import numpy as np

from peer import optim, optim_43, optim_89
from peer.gpt import GPT
from peer.speedrun_43 import Speedrun43
from peer.speedrun_89 import Speedrun89
from peer.targets import target_weights
from peer.tokens import on_device

MODELS = {"speedrun_43": Speedrun43, "speedrun_89": Speedrun89, "speedrun_91": Speedrun89}
OPTIMIZERS = {"speedrun_43": optim_43, "speedrun_89": optim_89, "speedrun_91": optim_89}


def make_model(s, dtype):
    return MODELS.get(s.RECIPE, GPT)(s, dtype)


def make_optimizers(s, model, compiled):
    """Returns Adam and Muon, whose groups have the "base_lr" that schedules scale."""
    optimizers = OPTIMIZERS.get(s.RECIPE, optim).make_optimizers(s, model, compiled)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["base_lr"] = group["lr"]
    return optimizers


def extra_inputs(s, step, device):
    """Returns a step's inputs of a pass after the stage: of a model with weighted targets, their weights."""
    if MODELS.get(s.RECIPE) is not Speedrun89:
        return ()
    return (on_device(np.array(target_weights(s, step), np.float32), device),)
