"""The quantised artifacts as the reference scripts make them with torch, for tests."""
import io
import lzma
import zlib

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
