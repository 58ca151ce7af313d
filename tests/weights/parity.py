#!/usr/bin/env python3
"""usage: parity.py ARTIFACT_TOOL CASES

For every folder of CASES that holds final_averaged.safetensors and final_model.int6.ptz: quantises the
first and expects the tensors and metadata of the second to the bit, reads the second and expects the
weights that torch reads, and compares sizes. With quantised.safetensors instead of the first, reads the
second, an artifact of GPTQ, and expects these tensors, as our reader in Python does, and its weights. Exit
status 0 when all agree.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

import reference
import torch
from safetensors.torch import load_file


def unbanked(weights):
    """The state dict with a tensor for each layer's matrix, without MTP heads."""
    layers = weights["mlp_up_bank"].shape[0]
    banks = {
        "qo_bank": ("attn.c_q", "attn.proj"),
        "kv_bank": ("attn.c_k", "attn.c_v"),
        "mlp_up_bank": ("mlp.fc",),
        "mlp_down_bank": ("mlp.proj",),
    }
    tensors = {}
    for name, t in weights.items():
        for k, part in enumerate(banks.get(name, ())):
            for i in range(layers):
                tensors[f"blocks.{i}.{part}.weight"] = t[k * layers + i].clone()
        if name not in banks and not name.startswith("mtp_heads."):
            tensors[name] = t
    return tensors


def check(tool, case):
    """What differs."""
    with tempfile.TemporaryDirectory() as folder:
        given, written, read = (os.path.join(folder, name) for name in ("in.pt", "out.ptz", "read.pt"))
        theirs = case / "final_model.int6.ptz"
        expected = reference.load(theirs)
        tensors = unbanked(load_file(case / "final_averaged.safetensors"))
        # In the order of the artifact, which is Python's state dict's.
        tensors = {name: tensors.pop(name) for name in expected["m"]} | tensors
        torch.save({"tensors": tensors, "kinds": {name: reference.kind_of(name) for name in tensors}}, given)
        print(case.name, subprocess.check_output([tool, "write", given, written], text=True), end="")
        subprocess.check_call([tool, "read", theirs, read])
        found = reference.load(written)
        wrong = reference.differences(found, expected)
        wrong += reference.differences(torch.load(read, weights_only=True), reference.int6_weights(expected))
        kinds = [kind if isinstance(kind, str) else kind["type"] for kind in found["m"].values()]
        sizes = os.path.getsize(written), theirs.stat().st_size
        print(f"  {len(found['w'])} tensors, {({kind: kinds.count(kind) for kind in sorted(set(kinds))})}, "
              f"{sizes[0]} bytes, Python's {sizes[1]}: {'differs' if wrong else 'the same bits'}")
        return wrong


def check_gptq(tool, case):
    """What differs in reading an artifact of GPTQ."""
    theirs, expected = case / "final_model.int6.ptz", dict(sorted(load_file(case / "quantised.safetensors").items()))
    value = reference.load_gptq(theirs)
    wrong = reference.differences(dict(sorted(value["w"].items())), expected, "Python")
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "made.pt")
        subprocess.check_call([tool, "stored", theirs, made])
        stored = torch.load(made, weights_only=True)
        wrong += reference.differences(dict(sorted(stored.items())), expected, "stored")
        subprocess.check_call([tool, "read", theirs, made])
        weights = torch.load(made, weights_only=True)
    for name, weight in reference.gptq_weights(value).items():
        if not torch.allclose(weights[name], weight, rtol=1e-6, atol=1e-6):
            wrong.append(f"{name}: {weights[name]} is not {weight}")
    print(f"{case.name}\n  {len(stored)} tensors: {'differs' if wrong else 'the same bits'}")
    return wrong


def main():
    tool, cases = sys.argv[1], pathlib.Path(sys.argv[2])
    found = sorted(path.parent for path in cases.glob("*/final_model.int6.ptz"))
    checks = [check_gptq if (case / "quantised.safetensors").exists() else check for case in found]
    wrong = [line for check_case, case in zip(checks, found) for line in check_case(tool, case)]
    print("\n".join(wrong[:20]))
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
