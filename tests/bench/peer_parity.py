#!/usr/bin/env python3
"""Compare the peer's last record, or record 43, 89 or 91, with a reference, in fp32 on the CPU.

    peer_parity.py CASE_DIR

CASE_DIR has case.env and expected.json (train_loss by step from 1), and may have init.safetensors and
step1_grads.safetensors (before clipping); a folder above it has defaults.env, and data/ is beside it or in the folder
cases/ beside its parent. The peer trains for as many steps as expected.json has losses, from these weights on this data,
and compares each loss, the gradient tensors of the first step, and the sums of the weights that SEED draws. Exit status 1
if a difference exceeds its tolerance.
"""
import argparse
import json
import pathlib
import sys

import torch
from safetensors.torch import load_file

from peer.recipe import make_model
from peer.settings import read_texts, settings_of
from torch_compile_peer import Trainer

# Relative. Another order of summation changes a loss by 2e-7; in the gradient of a query gain much larger terms cancel.
TOLERANCE, GRADIENT_TOLERANCE = 1e-6, 2e-5


def case_settings(case, expected):
    defaults = next(path for folder in case.parents if (path := folder / "defaults.env").exists())
    texts = read_texts(defaults) | read_texts(case / "case.env")
    data = next(path for path in (case.parent / "data", case.parents[1] / "cases" / "data") if path.is_dir())
    texts |= {"DATA_PATH": str(data), "DEVICE": "cpu", "COMPUTE_DTYPE": "fp32"}
    if texts.get("PREFIX_TABLE"):
        texts["PREFIX_TABLE"] = str(data.parent / texts["PREFIX_TABLE"])
    # The recipe's own value, which the defaults do not name.
    texts["WARMDOWN_WHOLE_STEPS"] = str(int(texts.get("RECIPE") in ("speedrun_89", "speedrun_91")))
    return settings_of(texts | {"INIT_FROM": str(case.parent / expected["init_from"] / "init.safetensors")})


def initial_difference(s, sums):
    """Returns the largest relative difference of the sums of absolute values of the tensors that SEED draws."""
    torch.manual_seed(s.SEED)
    drawn = make_model(s, torch.float32).state_dict()
    differences = []
    for name, found in sums.items():
        own, expected = drawn[name].double().abs().sum().item(), found.get("abs_sum", found.get("abs"))
        differences.append(abs(own - expected) / max(expected, 1))
    return max(differences)


def gradient_difference(trainer, reference):
    """Returns the largest relative difference of a gradient tensor, by norms."""
    own = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in trainer.model.named_parameters()}
    return max(((own[name] - expected).norm() / expected.norm()).item() for name, expected in reference.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=pathlib.Path)
    case = parser.parse_args().case.resolve()
    expected = json.loads((case / "expected.json").read_text())
    losses = list(expected["train_loss"].values())
    s = case_settings(case, expected)
    ok = True

    def report(what, difference, tolerance=TOLERANCE):
        nonlocal ok
        ok &= difference <= tolerance
        print(f"{what}: worst relative difference {difference:.1e}, {'ok' if difference <= tolerance else 'FAIL'}")

    for name in {"init_seed", "init_seed_fp32_draws"} & expected.keys():
        report("initial weights", initial_difference(s, expected[name]))
    gradients = case / "step1_grads.safetensors"
    if gradients.exists():
        trainer = Trainer(s, torch.device("cpu"), torch.float32, eager=True)
        trainer.backward(0)
        report("gradients of step 1", gradient_difference(trainer, load_file(gradients)), GRADIENT_TOLERANCE)
    trainer = Trainer(s, torch.device("cpu"), torch.float32, eager=True)
    own = trainer.train(len(losses))[0]
    report(f"losses of {len(losses)} steps", max(abs(a - b) / b for a, b in zip(own, losses)))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
