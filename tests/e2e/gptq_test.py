"""ARTIFACT=gptq and quantize --calibrate: the quantized file of a run, of several ranks, and of a model."""

import os
import re
import unittest

from harness import LAST_RECORD, SMALL
from model_commands import ModelTest

USAGE, DATA, MISSING, CANNOT_CREATE, CONFIG = 64, 65, 66, 73, 78

# Sizes for which the token table and the MLP matrices have more than 65,536 elements.
LARGE = dict(MODEL_DIM=144, MLP_MULT=4, NUM_LAYERS=2, XSA_LAST_N=2, NUM_LOOPS=1, LOOP_START=0, LOOP_END=0, PARALLEL_START_LAYER=1,
             ITERATIONS=4, VAL_LOSS_EVERY=0, GPTQ_CALIBRATION_BATCHES=2, TRAIN_BATCH_TOKENS=512, VAL_TOKENS=1024,
             VAL_BATCH_SIZE=1024)
FAST = ("--compressor", "lzma")  # brotli, the default, takes most of a command's time
QUANTIZED = {**LAST_RECORD, **LARGE, "ARTIFACT": "gptq", "GATED_ATTN_QUANT_GATE": 1, "LQER_TOP_K": 1}


def of_name(events, name):
    return next(event for event in events if event["event"] == "final" and event["name"] == name)


class GptqTest(ModelTest):
    def trained(self, name, **settings):
        # Without SCORED's settings: this recipe has neither sliding windows nor chunked test-time training.
        return super().trained(name, **{**QUANTIZED, "EVAL_STRIDE": 0, "TTT_ENABLED": 0, **settings})

    def quantized_score(self, path, *words, **settings):
        """Runs `eval` on the file and returns its output."""
        line, = [line for line in self.prints("eval", "--init-from", path, *words, **settings).splitlines()
                 if line.startswith("diagnostic quantized ")]
        return re.match(r"diagnostic quantized (val_loss:\d+\.\d{8} val_bpb:\d+\.\d{8}) eval_time:\d+ms$", line)[1]

    def test_a_run_ends_with_a_file_that_scores_as_it_said(self):
        out, lines = self.trained("brotli")
        text = "\n".join(lines)
        self.assertRegex(text, r"(?m)^GPTQ:collected 13 Hessians in \d+\.\ds$")
        start = lines.index("Quantized weights:")
        self.assertEqual(lines[start + 1:start + 5], [
            "  gate_int8_row: blocks.attn.attn_gate_w",
            "  gptq (int6): blocks.mlp.fc.weight, blocks.mlp.proj.weight",
            "  gptq (int6)+lqer_asym: blocks.mlp.fc.weight",
            "  gptq (int8): tok_emb.weight"])
        bytes_ = (out / "final_model.int6.ptz").stat().st_size
        self.assertIn(f"Serialized model quantized+brotli: {bytes_} bytes", lines)
        self.assertRegex(text, r"(?m)^Total submission size quantized\+brotli: \d+ bytes$")
        score = self.quantized_score(out / "final_model.int6.ptz")
        self.assertIn(score, text)
        loss, before = (float(re.search(rf"diagnostic {name} val_loss:([\d.]+)", text)[1])
                        for name in ("quantized", "pre-quantization post-ema"))
        self.assertLess(abs(loss - before), 0.02)

    def test_all_compressors_keep_the_same_weights(self):
        out, _ = self.trained("brotli")
        expected = self.quantized_score(out / "final_model.int6.ptz")
        for compressor in ("lzma", "pergroup"):
            with self.subTest(compressor):
                made = self.folder / f"{compressor}.ptz"
                printed = self.prints("quantize", "--init-from", out, "--out", made, "--calibrate", self.shards,
                                      "--compressor", compressor)
                self.assertIn(f"Serialized model quantized+{compressor}: {made.stat().st_size} bytes", printed)
                (self.folder / "config.json").write_bytes((out / "config.json").read_bytes())
                self.assertEqual(self.quantized_score(made), expected)

    def test_quantize_writes_the_file_of_the_run_from_its_training_shards(self):
        out, _ = self.trained("brotli")
        made, training = self.folder / "made.ptz", self.folder / "training"
        training.mkdir()
        for shard in self.shards.glob("fineweb_train_*"):
            (training / shard.name).symlink_to(shard)
        self.prints("quantize", "--init-from", out, "--out", made, "--calibrate", training)
        self.assertEqual(made.read_bytes(), (out / "final_model.int6.ptz").read_bytes())

    def test_inspect_shows_what_each_matrix_lost(self):
        out, _ = self.trained("brotli")
        text = self.prints("inspect", "--quantization", "--artifact", out / "final_model.int6.ptz", out)
        rows = [line.split() for line in text.splitlines() if re.match(r"(tok_emb|blocks\.\d\.mlp)", line)]
        errors = {row[0]: float(row[-1]) for row in rows if "#" in "".join(row)}
        self.assertEqual(len(errors), 5, text)
        # The 8-bit table has a smaller error than the 6-bit MLPs.
        self.assertTrue(0 < errors["tok_emb.weight"] < errors["blocks.0.mlp.fc.weight"] < 20, errors)
        self.refuses(USAGE, "--artifact", "inspect", "--artifact", out / "final_model.int6.ptz", out)

    def test_fewer_bits_make_a_smaller_file_and_cost_more(self):
        out, lines = self.trained("brotli")
        raw = float(re.search(r"post-ema val_loss:([\d.]+)", "\n".join(lines))[1])
        (self.folder / "config.json").write_bytes((out / "config.json").read_bytes())
        sizes, costs = [], []
        for bits in (2, 4, 8):
            made = self.folder / f"bits{bits}.ptz"
            printed = self.prints("quantize", "--init-from", out, "--out", made, "--calibrate", self.shards, "--bits", bits,
                                  *FAST)
            self.assertIn(f"gptq (int{bits})", printed)
            sizes.append(made.stat().st_size)
            costs.append(abs(float(self.quantized_score(made).split()[0].split(":")[1]) - raw))
        self.assertEqual(sizes, sorted(sizes))
        self.assertEqual(costs, sorted(costs, reverse=True))
        # Clipped for the given bits instead of with the defaults for six bits.
        wide = self.folder / "wide.ptz"
        self.prints("quantize", "--init-from", out, "--out", wide, "--calibrate", self.shards, "--bits", 4,
                    "--mlp-clip-sigmas", 10, "--embed-clip-sigmas", 20, *FAST)
        self.assertLess(wide.stat().st_size, sizes[1])

    def test_one_short_document_is_enough_and_said_to_be_short(self):
        out, _ = self.trained("brotli")
        text, made = self.folder / "one.txt", self.folder / "one.ptz"
        text.write_text("You may copy and give away this licence, and change what it grants. " * 3)
        printed = self.prints("quantize", "--init-from", out, "--out", made, "--calibrate", text, "--bits", "auto", *FAST)
        self.assertIn(f"Serialized model quantized+lzma: {made.stat().st_size} bytes", printed)
        self.assertRegex(self.errors, r"one\.txt.*: too short for GPTQ_CALIBRATION_BATCHES=2 \(expected 4 rows of 32 "
                         r"tokens, found \d+\); rows are read again and again")

    def test_every_recipe_is_quantised(self):
        record = dict(SMALL, MODEL_DIM=144, MLP_MULT=4, NUM_LAYERS=2, VE_LAYERS="0,1", ITERATIONS=4, VAL_LOSS_EVERY=0)
        speedrun = dict(record, RECIPE="speedrun", TIE_EMBEDDINGS=0, BIGRAM_VOCAB_SIZE=0, VE_ENABLED=0, SMEAR_GATE=0,
                        XSA_LAST_N=0, NUM_KV_HEADS=4, BIGRAM_DIM=144)
        for name, recipe in (("record", record), ("speedrun", speedrun)):
            with self.subTest(name):
                self.train(output=name, **{**recipe, "ARTIFACT": "none"})
                out = self.out
                raw = re.search(r"val_loss:([\d.]+)", self.prints("eval", "--init-from", out, "--eval-stride", 0))[1]
                made = out / "final_model.int6.ptz"
                self.prints("quantize", "--init-from", out, "--out", made, "--calibrate", self.shards,
                            "--gptq-calibration-batches", 2, *FAST)
                score = self.quantized_score(made)
                self.assertAlmostEqual(float(score.split()[0].split(":")[1]), float(raw), delta=0.02)

    def test_two_ranks_write_one_file_of_all_their_rows(self):
        out, lines = self.trained("two", ranks=2, GRAD_ACCUM_STEPS=None, COMPRESSOR="lzma")
        self.assertEqual(len([line for line in lines if line.startswith("GPTQ:collected")]), 1)
        self.assertIn(self.quantized_score(out / "final_model.int6.ptz"), "\n".join(lines))

    def test_what_does_not_fit_is_said_before_training(self):
        out, _ = self.trained("brotli")
        quantize = ("quantize", "--init-from", out, "--out", self.folder / "none.ptz")
        done = self.command(*quantize[:3], "--out", self.folder / "none" / "made.ptz", "--calibrate", self.shards)
        self.assertEqual((done.returncode, "GPTQ" in done.stdout), (CANNOT_CREATE, False), done.stderr)
        self.assertIn("none/made.ptz: cannot be created", done.stderr)
        self.refuses(USAGE, "--calibrate DATA", *quantize, "--artifact", "gptq")
        self.refuses(USAGE, "--bits needs --calibrate", *quantize, "--bits", 4)
        self.refuses(USAGE, "expected gptq", *quantize, "--artifact", "int8_zlib", "--calibrate", self.shards)
        self.refuses(USAGE, "found an artifact", "quantize", "--init-from", out / "final_model.int6.ptz", "--out",
                     self.folder / "none.ptz", "--calibrate", self.shards)
        self.refuses(MISSING, "no-such-data", *quantize, "--calibrate", self.folder / "no-such-data")
        self.fails(CONFIG, "LQER_FACTOR_BITS=3", **{**QUANTIZED, "LQER_FACTOR_BITS": 3})
        # The path has no program of that name: the run does not start.
        self.fails(MISSING, "lrzip", **{**QUANTIZED, "COMPRESSOR": "pergroup", "PATH": self.folder})
        self.assertFalse(self.out.exists())
        self.assertFalse((self.folder / "none.ptz").exists())


if __name__ == "__main__":
    unittest.main()
