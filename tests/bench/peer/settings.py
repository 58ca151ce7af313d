"""Settings under train_gpt's names and with its defaults: NAME=value from a file, then the
environment."""
import argparse
import os
import pathlib
import sys

DEFAULTS = {
    # data and run
    "DATA_PATH": "./data/datasets/fineweb10B_sp1024",
    "LOADER_ORDER": "stream",
    "SEED": 1337,
    "INIT_FROM": "",
    "ITERATIONS": 20000,
    "WARMDOWN_ITERS": 3500,
    "TRAIN_BATCH_TOKENS": 786432,
    "TRAIN_SEQ_LEN": 2048,
    "GRAD_ACCUM_STEPS": 0,
    "RECORD_QUIRKS": False,
    "DEVICE": "auto",
    "COMPUTE_DTYPE": "auto",
    # model
    "VOCAB_SIZE": 1024,
    "NUM_LAYERS": 11,
    "NUM_HEADS": 8,
    "NUM_KV_HEADS": 4,
    "MODEL_DIM": 512,
    "MLP_MULT": 3.0,
    "MLP_NEGATIVE_SLOPE": 0.5,
    "TIE_EMBEDDINGS": True,
    "ROPE_BASE": 1e4,
    "ROPE_DIMS": 16,
    "LOGIT_SOFTCAP": 30.0,
    "QK_GAIN_INIT": 1.5,
    "BIGRAM_VOCAB_SIZE": 2048,
    "BIGRAM_DIM": 128,
    "XSA_LAST_N": 4,
    "LN_SCALE": True,
    "VE_ENABLED": True,
    "VE_DIM": 128,
    "VE_LAYERS": "9,10",
    "VALUE_RESIDUAL": "0",
    "UNET_SKIPS": True,
    "SMEAR_GATE": True,
    "LAYER_SCALES": True,
    "RESID_MIX": "vector",
    # optimizer
    "EMBED_LR": 0.6,
    "HEAD_LR": 0.008,
    "TIED_EMBED_LR": 0.035,
    "TIED_EMBED_INIT_STD": 0.005,
    "MATRIX_LR": 0.025,
    "SCALAR_LR": 0.025,
    "MUON_MOMENTUM": 0.99,
    "MUON_MOMENTUM_WARMUP_START": 0.92,
    "MUON_MOMENTUM_WARMUP_STEPS": 1500,
    "MUON_BACKEND_STEPS": 5,
    "MUON_WD": 0.04,
    "ADAM_WD": 0.04,
    "BETA1": 0.9,
    "BETA2": 0.95,
    "ADAM_EPS": 1e-8,
    "GRAD_CLIP_NORM": 0.3,
    "EMA_ENABLED": True,
    "EMA_DECAY": 0.997,
    # refused when set
    "DTG_ENABLED": False,
    "GATED_ATTENTION": False,
    "MTP_NUM_HEADS": 0,
    "QAT_ENABLED": False,
}


def read_settings(path):
    texts = {}
    if path:
        for line in pathlib.Path(path).read_text().splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                name, value = line.split("=", 1)
                texts[name.strip()] = value.strip()
    texts.update((name, os.environ[name]) for name in DEFAULTS if name in os.environ)
    settings = argparse.Namespace(**DEFAULTS)
    for name, default in DEFAULTS.items():
        if name not in texts:
            continue
        text = texts[name]
        value = text in ("1", "true") if isinstance(default, bool) else type(default)(text)
        setattr(settings, name, value)
    for name in ("DTG_ENABLED", "GATED_ATTENTION", "MTP_NUM_HEADS", "QAT_ENABLED"):
        if getattr(settings, name):
            sys.exit(f"{name} is not in this script")
    if settings.VALUE_RESIDUAL not in ("0", "blend"):
        sys.exit(f"VALUE_RESIDUAL={settings.VALUE_RESIDUAL} is not in this script")
    return settings


def micro_batches(s):
    return s.GRAD_ACCUM_STEPS or 8
