"""Settings with train_gpt's names and defaults: NAME=value from a file, as `train_gpt inspect --settings` prints them
for a preset, overridden by the environment."""
import argparse
import os
import pathlib
import sys

AUTO = "auto"
DEFAULTS = {
    # data and run
    "DATA_PATH": "./data/datasets/fineweb10B_sp1024",
    "LOADER_ORDER": "stream",
    "DOCUMENT_ATTENTION": AUTO,
    "SEGMENT_LIMIT": AUTO,
    "BOS_ID": AUTO,
    "SEED": 1337,
    "INIT_FROM": "",
    "ITERATIONS": 20000,
    "WARMDOWN_ITERS": 3500,
    "WARMDOWN_FRAC": AUTO,
    "MIN_LR": 0.0,
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
    "ROPE_YARN": AUTO,
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
    "RECIPE": AUTO,
    "NUM_LOOPS": 0,
    "LOOP_START": 3,
    "LOOP_END": 5,
    "ENABLE_LOOPING_AT": 0.35,
    "PARALLEL_START_LAYER": 0,
    "SKIP_GATES_ENABLED": False,
    "SMEAR_GATE_ENABLED": False,
    "GATE_WINDOW": 12,
    "SPARSE_ATTN_GATE_ENABLED": False,
    "SPARSE_ATTN_GATE_SCALE": 1.0,
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
    "MUON_COEFFICIENTS": "quintic",
    "MUON_ROW_NORMALIZE": False,
    "MUON_WD": 0.04,
    "ADAM_WD": 0.04,
    "EMBED_WD": AUTO,
    "BETA1": 0.9,
    "BETA2": 0.95,
    "ADAM_EPS": 1e-8,
    "GRAD_CLIP_NORM": 0.3,
    "EMA_ENABLED": True,
    "EMA_DECAY": 0.997,
}
# Settings for which this script supports only these values.
FIXED = {
    "DTG_ENABLED": False,
    "GATED_ATTENTION": False,
    "GATED_ATTN_ENABLED": False,
    "ATTN_OUT_GATE_ENABLED": False,
    "SPARSE_ATTN_GATE_INIT_STD": 0.0,
    "PARALLEL_FINAL_LANE": "mean",
    "MTP_NUM_HEADS": 0,
    "QAT_ENABLED": False,
}


def value_of(text, kind):
    return text in ("1", "true") if kind is bool else kind(text)


def read_texts(path):
    """Reads a file of NAME=value lines; returns {NAME: value}."""
    lines = pathlib.Path(path).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line.strip() and not line.lstrip().startswith("#"))


# The switches that train_gpt's settings stand for.
SWITCHES = {"SMEAR": {"channels": "SMEAR_GATE", "gated": "SMEAR_GATE_ENABLED"},
            "HEAD_GATE": {"full": "GATED_ATTN_ENABLED", "biased": "GATED_ATTENTION",
                          "sparse": "SPARSE_ATTN_GATE_ENABLED", "output": "ATTN_OUT_GATE_ENABLED"}}


def read_settings(path):
    texts = read_texts(path) if path else {}
    texts.update((name, os.environ[name]) for name in [*DEFAULTS, *FIXED] if name in os.environ)
    return settings_of(texts)


def settings_of(texts):
    """Settings from {NAME: value}, with every `auto` resolved. Unknown names are ignored."""
    for setting, switches in SWITCHES.items():
        if setting in texts:
            texts = texts | {switch: str(int(value == texts[setting])) for value, switch in switches.items()}
    for name, value in FIXED.items():
        if name in texts and value_of(texts[name], type(value)) != value:
            sys.exit(f"{name}={texts[name]} is not in this script")
    settings = argparse.Namespace(**DEFAULTS)
    for name, default in DEFAULTS.items():
        if name not in texts:
            continue
        setattr(settings, name, value_of(texts[name], type(default)))
    resolve(settings)
    for name, values in (("VALUE_RESIDUAL", ("0", "blend")), ("ROPE_YARN", (AUTO, "0"))):
        if getattr(settings, name) not in values:
            sys.exit(f"{name}={getattr(settings, name)} is not in this script")
    return settings


def resolve(s):
    """Resolves `auto` as train_gpt does, except that BOS_ID is not read from a tokenizer."""
    last_record = s.MUON_COEFFICIENTS == "polar_express"
    of_auto = {
        "RECIPE": "speedrun" if s.VALUE_RESIDUAL == "blend" else "last_record" if last_record else "record",
        "DOCUMENT_ATTENTION": s.LOADER_ORDER == "documents",
        "SEGMENT_LIMIT": s.TRAIN_SEQ_LEN,
        "BOS_ID": 50256 if s.VOCAB_SIZE > 50256 else 1,
        "EMBED_WD": s.ADAM_WD,
        "WARMDOWN_FRAC": s.WARMDOWN_ITERS / max(s.ITERATIONS, 1),
    }
    for name, value in of_auto.items():
        text = getattr(s, name)
        setattr(s, name, value if text == AUTO else value_of(text, type(value)))
    s.SEGMENT_LIMIT = s.SEGMENT_LIMIT or row_length(s)
    if s.NUM_LOOPS and 0 < s.PARALLEL_START_LAYER <= s.LOOP_END:
        sys.exit("looped blocks in two lanes are not in this script")
    if s.LOADER_ORDER == "aligned":
        sys.exit("LOADER_ORDER=aligned is not in this script")
    if s.DOCUMENT_ATTENTION and s.LOADER_ORDER != "documents":
        sys.exit("DOCUMENT_ATTENTION=1 without LOADER_ORDER=documents is not in this script")


def micro_batches(s):
    return s.GRAD_ACCUM_STEPS or 8


def row_length(s):
    """Returns the tokens per row; in the documents order a micro-batch is one row."""
    return s.TRAIN_BATCH_TOKENS // micro_batches(s) if s.LOADER_ORDER == "documents" else s.TRAIN_SEQ_LEN


def called_blocks(s, recurrent):
    """Returns the blocks in the order of their calls; the first half is the encoder, which pushes the skips."""
    blocks = list(range(s.NUM_LAYERS))
    if not recurrent or s.NUM_LOOPS == 0:
        return blocks
    begin, end = s.LOOP_START, s.LOOP_END + 1
    return blocks[:begin] + blocks[begin:end] * (s.NUM_LOOPS + 1) + blocks[end:]


def is_recurrent(s, step):
    return s.NUM_LOOPS > 0 and step / s.ITERATIONS >= s.ENABLE_LOOPING_AT
