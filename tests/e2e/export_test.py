"""`train_gpt export --hf`: the exported model has the run's validation loss, in plain PyTorch and in transformers. The
test in transformers is skipped if it is not installed (scripts/setup.sh --tests installs it)."""

import importlib.util
import json
import os
import tempfile
import types
import unittest
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from exports import TOKENS, TRAINED, ExportTest, load_modeling, loss_of, mean_loss, plain_model
from harness import SMALL, SOURCE, SPEEDRUN_43, SPEEDRUN_89, TOKENIZER, write_shard
from safetensors.torch import save_file

# The speedrun preset's switches with smaller sizes.
SPEEDRUN = {name: None for name in SMALL} | {
    "VOCAB_SIZE": 512, "NUM_LAYERS": 3, "MODEL_DIM": 32, "NUM_HEADS": 4, "NUM_KV_HEADS": 4, "TRAIN_SEQ_LEN": 32,
    "LOADER_ORDER": "stream", "DEVICE": "cpu"} | TOKENS | TRAINED
# Settings that no preset switches on, rows long enough for another RoPE base, and an odd number of blocks.
OTHERS = {
    "NUM_LAYERS": 5, "MODEL_DIM": 64, "BIGRAM_DIM": 80, "VE_LAYERS": "0,3", "VALUE_RESIDUAL": 1, "DTG_ENABLED": 1,
    "GATED_ATTENTION": 1, "SMEAR_GATE": 0, "SMEAR_GATE_ENABLED": 1, "GATE_WINDOW": 7, "MTP_NUM_HEADS": 2,
    "TIE_EMBEDDINGS": 0, "RESID_MIX": "scalar", "XSA_LAST_N": 2, "ROPE_DIMS": 8,
    "ATTENTION_WINDOW": "0,100,1,700,1152", "TRAIN_SEQ_LEN": 1152, "TRAIN_BATCH_TOKENS": 1152, "GRAD_ACCUM_STEPS": 1,
    "VAL_BATCH_SIZE": 1152, "VAL_TOKENS": 2 * 1152, "WARMUP_STEPS": 0} | TRAINED
# The last record's parts, as in its preset, and variants: looped blocks outside the lanes, and recurrence that
# never began.
LAST_RECORD = TOKENS | {
    "NUM_LAYERS": 6, "MODEL_DIM": 64, "XSA_LAST_N": 6, "ROPE_DIMS": 8, "BIGRAM_VOCAB_SIZE": 0, "VE_ENABLED": 0,
    "SMEAR_GATE": 0, "SMEAR_GATE_ENABLED": 1, "SKIP_GATES_ENABLED": 1, "MUON_COEFFICIENTS": "polar_express",
    "NUM_LOOPS": 2, "LOOP_START": 2, "LOOP_END": 3, "ENABLE_LOOPING_AT": 0.5, "PARALLEL_START_LAYER": 4} | TRAINED
# Learning rates and an attention scale for which every part changes the loss by the end; with a final window
# shorter than a padded row, and with checkpoints in the earlier stages.
OF_WINDOWS = {
    "GATE_WINDOW": 7, "MLP_NEGATIVE_SLOPE": 0.25, "ROPE_BASE": 64, "ATTENTION_SCALE": 1, "MATRIX_LR": 0.3,
    "SCALAR_LR": 0.2, "HEAD_LR": 0.1, "MUON_WD": 0, "ITERATIONS": 14, "SCHEDULE_ITERATIONS": 12,
    "SHORT_WINDOW": "1,3@4,5@8,2@12", "LONG_WINDOW": "3,7@4,11@8,13@12", "MUON_MOMENTUM_WARMUP_STEPS": 6,
    "MUON_MOMENTUM_COOLDOWN_STEPS": 4, "VAL_LOSS_EVERY": 5, "VAL_TOKENS": 1024, "CHECKPOINT_EVERY": 5, "KEEP": 9}
RECORD_43 = {name: None for name in SMALL} | SPEEDRUN_43 | OF_WINDOWS | {"SPARSE_ATTN_GATE_SCALE": 0.5}
# Begin with drawn weights, and stay near them.
RECORD_89 = {name: None for name in SMALL} | SPEEDRUN_89 | OF_WINDOWS | {
    "QK_HEAD_DIM": 0, "ATTENTION_SCALE": 0.5, "PREFIX_WEIGHT": 0, "MATRIX_LR": 0.01, "EMBED_LR": 0.01,
    "SCALAR_LR": 0.01, "HEAD_LR": 0.01, "SEGMENT_LIMIT": "28,48@4", "TRAIN_BATCH_TOKENS": "256,384@4,512@8",
    "LR_SCALE": "1,1.52@4,1.73@8", "MTP_WEIGHTS": "1/0.5/0.25:0,1/0.5:0@4,1@8", "UNTIE_EMBEDDINGS_AT": 9}
RECORD_91 = RECORD_89 | {"RECIPE": "speedrun_91", "QK_HEAD_DIM": 4, "VALIDATION_MASK": 0}
LONG_ROWS = {name: OTHERS[name] for name in ("TRAIN_SEQ_LEN", "TRAIN_BATCH_TOKENS", "GRAD_ACCUM_STEPS",
                                             "VAL_BATCH_SIZE", "VAL_TOKENS", "WARMUP_STEPS")}
MODELS = {
    "documents": TOKENS | TRAINED | {"DOCUMENT_ATTENTION": 1, "LOADER_ORDER": "stream", "ATTENTION_WINDOW": "0,9,0,0"},
    "record": TOKENS | TRAINED, "speedrun": SPEEDRUN, "others": OTHERS, "speedrun_43": RECORD_43,
    "speedrun_89": RECORD_89, "speedrun_91": RECORD_91,
    "last_record": LAST_RECORD | LONG_ROWS | {
        "SPARSE_ATTN_GATE_ENABLED": 1, "SPARSE_ATTN_GATE_SCALE": 0.5, "ROPE_YARN": 0},
    "gate_of_queries": LAST_RECORD | {
        "ATTN_OUT_GATE_ENABLED": 1, "ATTN_OUT_GATE_SRC": "q", "GATE_WINDOW": 20, "ROPE_YARN": 1,
        "PARALLEL_FINAL_LANE": "attn", "ENABLE_LOOPING_AT": 2},
    "output_gate": LAST_RECORD | {
        "ATTN_OUT_GATE_ENABLED": 1, "SKIP_GATES_ENABLED": 0, "LOOP_END": 4, "PARALLEL_FINAL_LANE": "mlp"},
    "full_gate": LAST_RECORD | {"GATED_ATTN_ENABLED": 1, "UNET_SKIPS": 0, "VALUE_RESIDUAL": 1}}
OF_ROUNDING = 5e-5  # largest difference of a logit between orders of summation, also of drawn weights
WITH_WINDOWS = ("speedrun_43", "speedrun_89", "speedrun_91")


class PlainCache:
    """The interface of transformers' caches that the model uses."""

    def __init__(self):
        self.visits = {}

    def get_seq_length(self):
        return self.visits[0][0].shape[2] if self.visits else 0

    def update(self, k, v, visit):
        before = self.visits.get(visit, (k[:, :, :0], v[:, :, :0]))
        self.visits[visit] = tuple(torch.cat(parts, dim=2) for parts in zip(before, (k, v)))
        return self.visits[visit]


def write_documents(folder, shards):
    """Copies the shards, cut into documents of 5 to 149 tokens."""
    lengths = np.random.default_rng(1)
    folder.mkdir()
    for split in ("train", "val"):
        name = f"fineweb_{split}_000000.bin"
        tokens = np.fromfile(shards / name, dtype="<u2")[512:]
        begins = lengths.integers(5, 150, len(tokens) // 5).cumsum()
        tokens[np.append(0, begins[begins < len(tokens)])] = SPEEDRUN_43["BOS_ID"]
        write_shard(folder / name, tokens.tolist())


class LogitsTest(ExportTest):
    models = MODELS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.documents = cls.folder / "documents"
        write_documents(cls.documents, cls.shards)

    def train_model(self, name):
        flags = ["--config", SOURCE / "configs" / "speedrun_124m.env"] if name == "speedrun" else []
        drawn = {"INIT_FROM": self.drawn_weights(name)} if name in ("speedrun_89", "speedrun_91") else {}
        return self.train(*flags, output=name, **MODELS[name] | drawn | {"DATA_PATH": self.shards_of(name)})

    def drawn_weights(self, name):
        """Writes weights of record 89's or 91's model with which every part changes the loss; returns their file. Many
        are zero in a new model, and small after a short run."""
        config = types.SimpleNamespace(**{setting.lower(): value for setting, value in MODELS[name].items()})
        modeling = load_modeling(SOURCE / "src" / "commands" / "hf" / "modeling_speedrun_89.py")
        weights, draws = modeling.TrainGpt(config).state_dict(), torch.Generator().manual_seed(1)
        for key, value in weights.items():
            drawn = torch.randn(value.shape, generator=draws)
            if key.endswith("_b2"):
                weights[key] = 5 + 2 * drawn  # of outputs that are scaled by about a tenth
            elif key.endswith(("_scale", "_lambda", "_lambdas")):
                weights[key] = 1 + 0.3 * drawn
            else:
                weights[key] = drawn / value.shape[-1] ** 0.5
        weights["value_embeds"] *= 3
        weights["mudd_gate_scale"] *= 0.1
        weights["lm_head.weight"] = weights["tok_emb.weight"].clone()  # until they are untied
        save_file(weights, self.folder / f"{name}.safetensors")
        return self.folder / f"{name}.safetensors"

    def shards_of(self, name):
        return self.documents if name in WITH_WINDOWS else self.shards

    def test_plain_module_has_the_runs_loss(self):
        for name in MODELS:
            with self.subTest(name):
                folder, losses = self.exported(name)
                model = plain_model(folder)
                self.assert_loss(name, loss_of(model, *self.validation_rows(name)), losses["val"])

    def test_a_cache_changes_no_logits(self):
        for name in MODELS:
            with self.subTest(name), torch.no_grad():
                model, cache = plain_model(self.exported(name)[0]), PlainCache()
                ids = next(self.validation_rows(name))[:2, :24]
                parts = [model(ids[:, :end], cache) for end in (9, 17, *range(18, 25))]
                self.assertEqual([part.shape[1] for part in parts], [9, 8] + 7 * [1])
                difference = float((torch.cat(parts, dim=1) - model(ids)).abs().max())
                print(f"{name}: largest difference of a logit {difference:.3g}")
                self.assertLess(difference, OF_ROUNDING)
                with self.assertRaisesRegex(ValueError, "8 tokens and a cache of 24: expected all tokens"):
                    model(ids[:, :8], cache)

    def test_padding_on_either_side_changes_no_logits(self):
        for name in MODELS:
            with self.subTest(name), torch.no_grad():
                model = plain_model(self.exported(name)[0])
                texts = next(self.validation_rows(name)).flatten()[:96].view(3, 32)
                rows = [text[:count] for text, count in zip(texts, (11, 4, 8), strict=True)]
                next_ids = texts[:, 20:23]
                alone = [model(row[None])[0] for row in rows]
                continued = [model(torch.cat([row, ids])[None])[0] for row, ids in zip(rows, next_ids)]
                for begin_of in (lambda count: 0, lambda count: 13 - count, lambda count: 1):
                    ids, mask = torch.full((3, 13), 7), torch.zeros(3, 13, dtype=torch.long)
                    for row, (own, places) in enumerate(zip(rows, mask)):
                        places[begin_of(len(own)):][:len(own)] = 1
                        ids[row, places.bool()] = own
                    cache = PlainCache()
                    padded = model(ids, cache, mask)
                    parts = [padded[:, -1]]
                    for end in range(1, 4):
                        all_ids = torch.cat([ids, next_ids[:, :end]], dim=1)
                        parts.append(model(all_ids, cache, F.pad(mask, (0, end), value=1))[:, -1])
                    for row, expected in enumerate(alone):
                        self.assert_near(padded[row, mask[row].bool()], expected)
                        self.assert_near(padded[row, -1], expected[-1])
                        self.assert_near(torch.stack([part[row] for part in parts]), continued[row][len(rows[row]) - 1:])

    def assert_near(self, found, expected):
        self.assertLess(float((found - expected).abs().max()), OF_ROUNDING)

    def test_a_document_is_what_it_is_alone(self):
        model, bos = plain_model(self.exported("documents")[0]), 1
        row = next(self.validation_rows("documents"))[:1].clone()
        row[0, 0] = row[0, 9] = row[0, 20] = bos
        with torch.no_grad():
            whole = model(row)
            for begin, end in ((0, 9), (9, 20)):
                self.assert_near(whole[:, begin:end], model(row[:, begin:end]))

    def test_recurs_where_training_came_to_it(self):
        for name, visits in (("last_record", 10), ("gate_of_queries", 6), ("output_gate", 10)):
            model, cache = plain_model(self.exported(name)[0]), PlainCache()
            model(next(self.validation_rows(name))[:1, :3], cache)
            self.assertEqual(len(cache.visits), visits, name)

    def test_windows_and_rope_are_those_of_the_models_stage(self):
        for name in WITH_WINDOWS:
            _, losses = self.exported(name)
            for step in (5, 10):
                checkpoint = self.folder / name / "checkpoints" / f"step-{step:08}"
                folder = self.folder / f"{name}.step-{step}"
                done = self.export("--hf", folder, "--init-from", checkpoint)
                self.assertEqual(done.returncode, 0, done.stderr)
                loss = loss_of(plain_model(folder), *self.validation_rows(name))
                self.assert_loss(f"{name}, step {step}", loss, losses[step])

    def test_an_export_is_the_runs_model_again(self):
        for name in (*WITH_WINDOWS, "last_record", "gate_of_queries"):
            folder, again = self.exported(name)[0], self.folder / f"{name}.again"
            done = self.export("--hf", again, "--init-from", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            for file in ("config.json", "model.safetensors"):
                self.assertEqual((again / file).read_bytes(), (folder / file).read_bytes(), name)
        self.assertEqual(json.loads((again / "config.json").read_text())["rope_longest"], 512)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "transformers is not installed")
    def test_transformers_reads_it(self):
        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, HF_HOME=cache, HF_HUB_OFFLINE="1"):
            from transformers import AutoModelForCausalLM

            for name in MODELS:
                with self.subTest(name):
                    folder, losses = self.exported(name)
                    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
                    self.assertEqual({p.dtype for p in model.parameters()}, {torch.float32})
                    plain = plain_model(folder)
                    inputs, targets = self.validation_rows(name)
                    with torch.no_grad():
                        found, expected = model(inputs, labels=inputs), plain(inputs)
                    self.assert_loss(name, mean_loss(found.logits, targets), losses["val"])
                    difference = float((found.logits - expected).abs().max())
                    print(f"{name}: largest difference of a logit {difference:.3g}")
                    self.assertLess(difference, 1e-6)
                    self.assertAlmostEqual(float(found.loss), mean_loss(expected[:, :-1], inputs[:, 1:]), delta=1e-5)
                    self.assert_generates(model, plain, inputs[:2, :9])
                    self.assert_saves(model, folder)

    def assert_saves(self, model, folder):
        """Saving the exported model with transformers and loading it gives the same model."""
        saved, again = (folder.with_suffix(suffix) for suffix in (".saved", ".saved_again"))
        model.save_pretrained(saved)
        done = self.export("--hf", again, "--init-from", saved, "--tokenizer-path", TOKENIZER)
        self.assertEqual(done.returncode, 0, done.stderr)
        for file in ("config.json", "model.safetensors"):
            self.assertEqual((again / file).read_bytes(), (folder / file).read_bytes())

    def assert_generates(self, model, plain, ids):
        made, anew = (model.generate(ids, max_new_tokens=6, do_sample=False, use_cache=cached)
                      for cached in (True, False))
        self.assertEqual(made.tolist(), anew.tolist())
        for _ in range(6):
            with torch.no_grad():
                ids = torch.cat([ids, plain(ids)[:, -1:].argmax(-1)], dim=1)
        self.assertEqual(made.tolist(), ids.tolist())
        # A shorter row gives the same results with padding on either side as alone, and the same loss.
        short = ids[1:, :4]
        expected = model.generate(short, attention_mask=torch.ones_like(short), max_new_tokens=3, do_sample=False)
        for left in (0, ids.shape[1] - 4):
            padded, mask = ids.clone(), torch.ones_like(ids)
            mask[1] = 0
            mask[1, left:left + 4] = 1
            padded[1] = 0
            padded[1, left:left + 4] = short
            made = model.generate(padded, attention_mask=mask, max_new_tokens=3, do_sample=False)
            self.assertEqual(made[1, -3:].tolist(), expected[0, -3:].tolist())
            with torch.no_grad():
                loss, alone = (model(rows, attention_mask=rows_mask, labels=rows).loss for rows, rows_mask in
                               ((padded[1:], mask[1:]), (short, None)))
            self.assertAlmostEqual(float(loss), float(alone), delta=1e-5)
        with self.assertRaisesRegex(ValueError, "attention_mask .*: expected 0 or 1 for each of the input_ids"):
            model(ids, attention_mask=mask[:, 1:])


if __name__ == "__main__":
    unittest.main()
