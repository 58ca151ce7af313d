"""Settings with train_gpt's names and defaults: NAME=value from a file, as `train_gpt inspect --settings` prints them
for a preset, overridden by the environment."""
import argparse
import os
import pathlib
import sys

from peer.defaults import AUTO, DEFAULTS, FIXED
from peer.stages import SCHEDULED, has_prefix, make_stages


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


# Recipes of models whose settings change from stage to stage, and of those with weighted targets.
STAGED, WEIGHTED = ("speedrun_43", "speedrun_89", "speedrun_91"), ("speedrun_89", "speedrun_91")


def resolve(s):
    """Resolves `auto` as train_gpt does, except that BOS_ID is not read from a tokenizer, and adds `stages`. A setting that
    changes from stage to stage has its first value in `s`."""
    last_record = s.MUON_COEFFICIENTS == "polar_express"
    of_auto = {
        "RECIPE": "speedrun" if s.VALUE_RESIDUAL == "blend" else "last_record" if last_record else "record",
        "DOCUMENT_ATTENTION": batches_are_rows(s),
        "SEGMENT_LIMIT": str(s.TRAIN_SEQ_LEN),
        "BOS_ID": 50256 if s.VOCAB_SIZE > 50256 else 1,
        "EMBED_WD": s.ADAM_WD,
        "WARMDOWN_FRAC": s.WARMDOWN_ITERS / max(s.ITERATIONS, 1),
    }
    for name, value in of_auto.items():
        text = getattr(s, name)
        setattr(s, name, value if text == AUTO else value_of(text, type(value)))
    s.stages = make_stages(s)
    for stage in s.stages:
        if s.LOADER_ORDER == "aligned" and not stage.SEGMENT_LIMIT:
            sys.exit("LOADER_ORDER=aligned with SEGMENT_LIMIT=0 is not in this script")
        stage.SEGMENT_LIMIT = stage.SEGMENT_LIMIT or row_length(stage)
    vars(s).update((name, getattr(s.stages[0], name)) for name in SCHEDULED)
    require_supported(s)
    if s.NUM_LOOPS:
        s.stages *= 2  # before depth recurrence and in it


def require_supported(s):
    if s.NUM_LOOPS and 0 < s.PARALLEL_START_LAYER <= s.LOOP_END:
        sys.exit("looped blocks in two lanes are not in this script")
    if s.DOCUMENT_ATTENTION and not batches_are_rows(s):
        sys.exit("DOCUMENT_ATTENTION=1 without LOADER_ORDER=documents or aligned is not in this script")
    own = s.RECIPE in STAGED
    if s.NORMUON != own or s.CAUTIOUS_WD != own:
        sys.exit(f"expected NORMUON=1 and CAUTIOUS_WD=1 for RECIPE={' or '.join(STAGED)} alone: pass the settings that"
                 " `train_gpt inspect --settings` prints")
    if own and not s.DOCUMENT_ATTENTION:
        sys.exit(f"RECIPE={s.RECIPE} without DOCUMENT_ATTENTION is not in this script")
    if not own and len(s.stages) > 1:
        sys.exit(f"RECIPE={s.RECIPE} with a setting that changes at an @ is not in this script")
    weighted = any(stage.MTP_WEIGHTS.numbers != ((1, 1),) or has_prefix(stage) for stage in s.stages)
    if any(map(has_prefix, s.stages)) and not s.PREFIX_TABLE:
        sys.exit("PREFIX_WEIGHT without PREFIX_TABLE is not in this script")
    if s.RECIPE not in WEIGHTED and (weighted or s.UNTIE_EMBEDDINGS_AT):
        sys.exit(f"RECIPE={s.RECIPE} with MTP_WEIGHTS, PREFIX_WEIGHT or UNTIE_EMBEDDINGS_AT is not in this script")


def batches_are_rows(s):
    """Whether a micro-batch is one row, which begins with a document."""
    return s.LOADER_ORDER in ("documents", "aligned")


def micro_batches(s):
    return s.GRAD_ACCUM_STEPS or 8


def row_length(s):
    """Returns the tokens per row of the first stage, or of a stage."""
    return s.TRAIN_BATCH_TOKENS // micro_batches(s) if batches_are_rows(s) else s.TRAIN_SEQ_LEN
