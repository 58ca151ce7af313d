#!/usr/bin/env python3
"""usage: parity.py ARTIFACT_TOOL CASES

For every folder of CASES that holds final_averaged.safetensors and final_model.int6.ptz: quantises the
first and expects the tensors and metadata of the second to the bit, reads the second and expects the
weights that torch reads, and compares sizes. Exit status 0 when all agree.
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
        # In the order of the artifact, which is that of Python's state dict.
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


def main():
    tool, cases = sys.argv[1], pathlib.Path(sys.argv[2])
    found = sorted(path.parent for path in cases.glob("*/final_model.int6.ptz"))
    wrong = [line for case in found for line in check(tool, case)]
    print("\n".join(wrong[:20]))
    return 1 if wrong or not found else 0


if __name__ == "__main__":
    sys.exit(main())
