"""The quantised artifacts as the reference scripts make them with torch, for tests."""
import io
import lzma
import pathlib
import re
import struct
import subprocess
import tempfile
import zlib

import brotli
import numpy as np
import torch

KEEP_MAX = 65536  # elements that stay unquantised
CONTROL = (
    "attn_scale mlp_scale resid_mix q_gain skip_weight smear dtg_gate ve_layer_scales "
    "ve_shared.scale attn_gate vr_lambda"
).split()


def is_control(name):
    return any(pattern in name for pattern in CONTROL)


def kind_of(name):
    """What becomes of a large tensor in an int6 artifact."""
    if is_control(name):
        return "control"
    table = "tok_emb" in name or "lm_head" in name
    return "int6" if not table and any(part in name for part in (".mlp.", ".attn.", ".proj.")) else "int8"


def quantize_int6(w):
    best, least = None, float("inf")
    for p in (0.999, 0.9995, 0.9999, 0.99999, 1.0):
        clip = torch.quantile(w.abs(), p, dim=1) if p < 1 else w.abs().amax(dim=1)
        scale = (clip / 31).clamp_min(1 / 31).half()
        q = torch.clamp(torch.round(w / scale.float()[:, None]), -31, 31).to(torch.int8)
        error = (w - q.float() * scale.float()[:, None]).pow(2).mean().item()
        if error < least:
            best, least = (q, scale), error
    return best


def quantize_int8(w):
    if w.ndim != 2:
        clip = float(torch.quantile(w.abs().flatten(), 0.9999984))
        scale = torch.tensor(clip / 127 if clip > 0 else 1.0)
        return torch.clamp(torch.round(torch.clamp(w, -clip, clip) / scale), -127, 127).to(torch.int8), scale
    clip = torch.quantile(w.abs(), 0.9999984, dim=1)[:, None]
    clipped = torch.maximum(torch.minimum(w, clip), -clip)
    scale = (clip / 127).clamp_min(1 / 127)
    return torch.clamp(torch.round(clipped / scale), -127, 127).to(torch.int8), scale[:, 0].half()


def dequantize(q, scale):
    scale = scale.float()
    return q.float() * (scale.view(-1, *[1] * (q.ndim - 1)) if scale.ndim else float(scale))


def int6_value(weights):
    stored, meta = {}, {}
    for name, t in weights.items():
        kind = kind_of(name)
        if t.numel() <= KEEP_MAX:
            stored[name], meta[name] = t.half(), "passthrough"
        elif kind == "control":
            stored[name], meta[name] = t.float(), "passthrough_ctrl"
        else:
            quantize = quantize_int6 if kind == "int6" else quantize_int8
            stored[name + ".q"], stored[name + ".scale"] = quantize(t.float())
            meta[name] = {"type": kind}
    return {"w": stored, "m": meta}


def int8_value(weights):
    value = {"__quant_format__": "int8_clean_per_row_v1"}
    parts = "quantized scales dtypes passthrough qmeta passthrough_orig_dtypes".split()
    value.update((part, {}) for part in parts)
    for name, t in weights.items():
        dtype = str(t.dtype).removeprefix("torch.")
        if t.numel() > KEEP_MAX:
            value["quantized"][name], value["scales"][name] = quantize_int8(t.float())
            value["dtypes"][name] = dtype
            if t.ndim == 2:
                value["qmeta"][name] = {"scheme": "per_row", "axis": 0}
        elif is_control(name):
            value["passthrough"][name] = t.float()
        else:
            value["passthrough"][name] = t.half()
            value["passthrough_orig_dtypes"][name] = dtype
    return {key: part for key, part in value.items() if part or key not in parts[4:]}


def int6_weights(value):
    """{name: fp32 tensor} of an int6 artifact's value."""
    stored = value["w"]
    return {
        name: stored[name].float()
        if isinstance(kind, str)
        else dequantize(stored[name + ".q"], stored[name + ".scale"])
        for name, kind in value["m"].items()
    }


def int8_weights(value):
    weights = {name: dequantize(q, value["scales"][name]) for name, q in value["quantized"].items()}
    return weights | {name: t.float() for name, t in value["passthrough"].items()}


def save(value, path, compress):
    archive = io.BytesIO()
    torch.save(value, archive)
    with open(path, "wb") as file:
        file.write(compress(archive.getvalue()))


def save_int6(value, path):
    save(value, path, lambda archive: lzma.compress(archive, preset=6))


def save_int8(value, path):
    save(value, path, lambda archive: zlib.compress(archive, level=9))


def load(path):
    with open(path, "rb") as file:
        packed = file.read()
    archive = lzma.decompress(packed) if packed.startswith(b"\xfd7zXZ") else zlib.decompress(packed)
    return torch.load(io.BytesIO(archive), weights_only=True)


# The last record's artifact: the groups of matrices that are packed by themselves, and whether their rows
# are ordered first.
GROUPS = {
    "_tok_emb.weight.q": True,
    "attn.c_k.weight.q": False,
    "attn.c_q.weight.q": True,
    "attn.c_v.weight.q": False,
    "attn.proj.weight.q": False,
    "mlp.fc.weight.q": True,
    "mlp.proj.weight.q": False,
}


def group_of(name):
    """(group, layer) of a tensor's name in "w", or None."""
    if name == "tok_emb.weight.q":
        return "_tok_emb.weight.q", 0
    layer = re.fullmatch(r"blocks\.(\d+)\.(.*)", name)
    return (layer[2], int(layer[1])) if layer and layer[2] in GROUPS else None


def lrzip(arguments, data):
    if not data:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        given, made = pathlib.Path(folder, "given"), pathlib.Path(folder, "made")
        given.write_bytes(data)
        subprocess.run(["lrzip", "-Q", *arguments, "-o", made, given], check=True)
        return made.read_bytes()


def row_order(q):
    """Row 0, then ever the unused row of the least L1 distance, the first of equals."""
    rows, order, left = q.astype(np.int32), [0], list(range(1, len(q)))
    while left:
        order.append(left.pop(int(np.abs(rows[left] - rows[order[-1]]).sum(1).argmin())))
    return np.array(order, np.uint16)


def save_pergroup(value, path):
    """{"w": tensors, "m": kinds} as the last record's script writes it."""
    tensors = dict(value["w"])
    columns, shapes, orders = {group: b"" for group in GROUPS}, {}, b""
    found = sorted((list(GROUPS).index(group_of(name)[0]), group_of(name)[1], name) for name in tensors if group_of(name))
    for _, _, name in found:
        group, q = group_of(name)[0], tensors.pop(name).numpy()
        shapes.setdefault(group, []).append(tuple(q.shape))
        if GROUPS[group]:
            order = row_order(q)
            q, orders = q[order], orders + order.tobytes()
        columns[group] += q.T.tobytes()
    archive = io.BytesIO()
    torch.save({"r": dict(sorted(tensors.items())), "m": value["m"], "s": shapes}, archive)
    streams = [lrzip(["-z", "-L", "9"], data) for data in columns.values()]
    streams.append(brotli.compress(archive.getvalue(), quality=11, lgwin=24))
    streams.append(brotli.compress(orders, quality=11) if orders else b"")
    with open(path, "wb") as file:
        file.write(b"PGRP" + struct.pack("<I9I", 9, *map(len, streams)) + b"".join(streams))


def load_pergroup(packed):
    """The value {"w": tensors, "m": kinds} of such a file's bytes."""
    count, *lengths = struct.unpack_from("<I9I", packed, 4)
    ends = 44 + np.cumsum(lengths)
    assert count == 9 and ends[-1] == len(packed)
    *columns, archive, orders = (packed[end - length : end] for end, length in zip(ends, lengths))
    all = torch.load(io.BytesIO(brotli.decompress(archive)), weights_only=True)
    tensors, orders = all["r"], np.frombuffer(brotli.decompress(orders) if orders else b"", np.uint16)
    quantised = {name + ".q" for name, kind in all["m"].items() if kind.startswith("gptq")} - set(tensors)
    for group, stream in zip(GROUPS, columns):
        names = sorted((name for name in quantised if group_of(name)[0] == group), key=lambda name: group_of(name)[1])
        data = np.frombuffer(lrzip(["-d"], stream), np.int8)
        for name, (rows, width) in zip(names, all["s"].get(group, []), strict=True):
            q, data = data[: rows * width].reshape(width, rows).T, data[rows * width :]
            if GROUPS[group]:
                order, orders = orders[:rows], orders[rows:]
                q = q[np.argsort(order)]
            tensors[name] = torch.tensor(np.ascontiguousarray(q))
        assert not len(data), group
    assert not len(orders)
    return {"w": tensors, "m": all["m"]}


def load_gptq(path):
    with open(path, "rb") as file:
        packed = file.read()
    if packed.startswith(b"PGRP"):
        return load_pergroup(packed)
    archive = lzma.decompress(packed) if packed.startswith(b"\xfd7zXZ") else brotli.decompress(packed)
    return torch.load(io.BytesIO(archive), weights_only=True)


def grouped(q, scale):
    """A quantised factor of which each scale has as many consecutive elements."""
    return (q.float().view(scale.numel(), -1) * scale.float().view(-1, 1)).view(q.shape)


def gptq_weights(value):
    """{name: fp32 tensor} of such a value."""
    stored, weights = value["w"], {}
    for name, kind in value["m"].items():
        if kind == "passthrough (float16)":
            weights[name] = stored[name].float()
        elif kind == "gate_int8_row":
            weights[name] = dequantize(stored[name + ".gq"], stored[name + ".gs"])
        else:
            weights[name] = dequantize(stored[name + ".q"], stored[name + ".scale"])
            end = {"": None, "lqer": "", "lqer_asym": "_a"}[kind.partition("+")[2]]
            if end is not None:
                a, b = (grouped(stored[f"{name}.lq{k}{end}"], stored[f"{name}.lq{k}s{end}"]) for k in "AB")
                weights[name] += a @ b
    return weights


def differences(found, expected, where=""):
    """Where two values differ, to the bit."""
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            return [f"{where}: {list(found)} is not {list(expected)}"]
        return [line for key in expected for line in differences(found[key], expected[key], f"{where}/{key}")]
    if isinstance(expected, torch.Tensor):
        same = found.dtype == expected.dtype and torch.equal(found, expected)
        return [] if same else [f"{where}: {found} is not {expected}"]
    return [] if found == expected else [f"{where}: {found!r} is not {expected!r}"]
