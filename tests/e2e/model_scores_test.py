"""eval and quantize: a trained model's scores and its artifact are those of its run."""

import collections
import json
import math
import shutil
import struct
import unittest
import zlib

from harness import TOKENIZER, TWO_LAYERS, mpirun
from model_commands import SCORED, UNFIT, ModelTest, exact_scores


class EvalTest(ModelTest):
    def eval(self, path, *words, **settings):
        self.lines = self.prints("eval", "--init-from", path, *words, **settings).splitlines()
        return exact_scores(self.lines)

    def test_of_an_artifact_are_the_scores_of_its_run(self):
        out, lines = self.trained("int6")
        scores = self.eval(out / "final_model.int6.ptz")
        self.assertEqual(scores, exact_scores(lines))
        self.assertEqual(list(scores), [
            "final_int6_roundtrip_exact", "final_int6_sliding_window_exact", "final_int6_sliding_window_s64_exact",
            "legal_ttt_exact"])
        self.assertNotIn("final_int6_roundtrip val_loss", self.errors)

    def test_of_the_other_artifact_as_well(self):
        out, lines = self.trained("int8", ARTIFACT="int8_zlib", TTT_ENABLED=0)
        scores = self.eval(out / "final_model.int8.ptz")
        self.assertEqual(scores, exact_scores(lines))
        self.assertIn("final_int8_zlib_sliding_window_exact", scores)

    def test_of_a_raw_model_are_those_of_a_run_without_an_artifact(self):
        out, lines = self.trained("raw", ARTIFACT="none", TTT_ENABLED=0)
        for suffix in ("safetensors", "pt"):
            scores = self.eval(out / f"final_model.{suffix}")
            validation = scores.pop("final_validation_exact")
            self.assertEqual(scores, exact_scores(lines))
        # The run also scored the same weights in sequences of the same length.
        rounded = next(line for line in lines if line.startswith("DIAGNOSTIC post_ema"))
        self.assertIn(f"val_loss:{float(validation[0].split(':')[1]):.4f}", rounded)

    def test_a_smear_gate_closes_at_the_bos_of_the_run(self):
        out, lines = self.trained("gated", ARTIFACT="none", SMEAR_GATE=0, SMEAR_GATE_ENABLED=1)
        self.assertEqual(json.loads((out / "config.json").read_text())["settings"]["BOS_ID"], 1)
        weights = out / "final_model.safetensors"
        scores = self.eval(weights)
        scores.pop("final_validation_exact")
        self.assertEqual(scores, exact_scores(lines))
        # Other ways to get BOS_ID: from the tokenizer, or as a token of the validation tokens, after the shard's
        # header.
        token = int.from_bytes((self.shards / "fineweb_val_000000.bin").read_bytes()[1100:1102], "little")
        for bos_id, is_same in (("auto", True), (token, False)):
            other = self.eval(weights, "--bos-id", bos_id)
            self.assertEqual(all(other[name] == score for name, score in scores.items()), is_same, bos_id)
        texts = {self.prints("sample", "--init-from", weights, "--prompt", "You may", "--tokens", 9, "--temperature", 0,
                             "--kv-cache", cache) for cache in (0, 1)}
        self.assertEqual(len(texts), 1)

    def test_scores_by_document_add_up_to_the_scores(self):
        out, _ = self.trained("int6")
        path = self.folder / "documents.jsonl"
        # A frequent token as BOS, so that there are many documents.
        shard = (self.shards / "fineweb_val_000000.bin").read_bytes()[1024:1024 + 2 * 2048]
        bos, _ = collections.Counter(struct.unpack("<2048H", shard)).most_common(1)[0]
        for words, settings in (([], dict(BOS_ID=bos)), (["--document-attention", 1], dict(BOS_ID=bos, TTT_ENABLED=0)),
                                ([], dict(BOS_ID=bos, TTT_ENABLED=0, ranks=2))):
            with self.subTest(words=words, **settings):
                lines = self.prints("eval", "--init-from", out / "final_model.int6.ptz", "--documents", path, *words,
                                    **settings).splitlines()
                by_score = {}
                for document in map(json.loads, path.read_text().splitlines()):
                    by_score.setdefault(document["score"], []).append(document)
                printed = {words[0].removesuffix("_exact"): words[1:3] for words in map(str.split, lines)
                           if len(words) > 2 and words[1].startswith("val_loss:")}
                self.assertGreaterEqual(len(by_score), 1)
                self.assertEqual(by_score.keys(), printed.keys())
                for score, documents in by_score.items():
                    tokens, bytes_, nll = (sum(document[key] for document in documents) for key in ("tokens", "bytes", "nll"))
                    loss, bpb = (float(word.split(":")[1]) for word in printed[score])
                    self.assertAlmostEqual(nll / tokens, loss, delta=2e-6 * loss)
                    self.assertAlmostEqual(nll / math.log(2) / bytes_, bpb, delta=2e-6 * bpb)
                    places = [document["place"] for document in documents]
                    self.assertEqual(places, sorted(set(places)))
                    self.assertGreater(len(places), 1)
        self.refuses(73, "cannot be created", "eval", "--init-from", out, "--documents", self.folder / "no" / "such.jsonl")
        self.refuses(64, "--documents", "eval", "--init-from", out, "--documents", path, "--lambada", path)

    def test_ranks_share_the_work(self):
        out, lines = self.trained("int6")
        scores = self.eval(out / "final_model.int6.ptz", through=mpirun(2))
        self.assertIn("ranks:2 by:openmpi", self.lines[0])
        for name, (loss, bpb) in exact_scores(lines).items():
            for expected, found in zip((loss, bpb), scores[name]):
                # Sums in another order, which test-time training amplifies.
                self.assertAlmostEqual(float(found.split(":")[1]), float(expected.split(":")[1]), delta=1e-4)

    def test_flags_beat_the_runs_settings(self):
        out, _ = self.trained("int6")
        model = out / "final_model.int6.ptz"
        self.assertEqual(list(self.eval(model, "--ttt-enabled", 0, "--eval-stride", 0)), ["final_int6_roundtrip_exact"])
        self.assertEqual(list(self.eval(model, TTT_ENABLED=0, EVAL_STRIDE=0, TOKENIZER_PATH="")), ["final_int6_roundtrip_exact"])
        self.assertNotIn("val_bpb", "".join(self.lines))

    def test_needs_no_training_shards(self):
        out, _ = self.trained("int6")
        folder = self.folder / "val_alone"
        folder.mkdir()
        for shard in self.shards.glob("fineweb_val_*"):
            (folder / shard.name).symlink_to(shard)
        short = dict(TTT_ENABLED=0, EVAL_STRIDE=0)
        self.assertEqual(self.eval(out / "final_model.int6.ptz", DATA_PATH=folder, **short),
                         self.eval(out / "final_model.int6.ptz", **short))

    def test_audit_and_baselines(self):
        out, _ = self.trained("int6")
        self.eval(out / "final_model.int6.ptz", "--audit", "--baselines", TTT_ENABLED=0, EVAL_STRIDE=0)
        *_, audit = self.lines
        self.assertEqual([line.split()[1] for line in self.lines if line.startswith("baseline ")],
                         ["byte_unigram", "token_unigram", "token_bigram"])
        self.assertRegex(audit, r"^audit documents:\d+ tokens:\d+ counted_bytes:(\d+) text_bytes:\1$")
        self.refuses(64, "--audit needs a tokenizer", "eval", "--init-from", out / "final_model.int6.ptz", "--audit",
                     TOKENIZER_PATH="", TTT_ENABLED=0, EVAL_STRIDE=0)

    def test_a_file_of_another_architecture_names_what_differs(self):
        out, _ = self.trained("int6")
        for suffix in ("safetensors", "int6.ptz"):
            self.refuses(78, ", found [", "eval", "--init-from", out / f"final_model.{suffix}", "--model-dim", 16)
            self.refuses(78, "missing", "eval", "--init-from", out / f"final_model.{suffix}", "--tie-embeddings", 0)

    def test_damaged_and_missing_files(self):
        out, _ = self.trained("int6")
        whole = (out / "final_model.int6.ptz").read_bytes()
        shutil.copy(out / "config.json", self.folder)
        (self.folder / "short.ptz").write_bytes(whole[:len(whole) // 2])
        self.refuses(65, "short.ptz", "eval", "--init-from", "short.ptz")
        self.refuses(66, "none.ptz", "eval", "--init-from", "none.ptz")
        self.refuses(64, "expected --init-from MODEL", "eval")
        (self.folder / "config.json").write_text("[]")
        self.refuses(78, "config.json: expected the config.json of the run", "eval", "--init-from", "short.ptz")
        (self.folder / "config.json").unlink()

    def test_without_a_config_the_settings_are_given(self):
        out, lines = self.trained("raw", ARTIFACT="none", TTT_ENABLED=0)
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(out / "final_model.pt", alone)
        given = {**TWO_LAYERS, **SCORED, "DATA_PATH": self.shards, "TOKENIZER_PATH": TOKENIZER, "TTT_ENABLED": 0}
        scores = self.eval(alone / "final_model.pt", **given)
        self.assertIn("alone/config.json: no such file", self.errors)
        self.assertEqual(scores["final_sliding_window_exact"], exact_scores(lines)["final_sliding_window_exact"])

    def test_the_scripts_quirk_keeps_qat_on_in_test_time_training(self):
        # An untied head, whose rounding affects every score; the other small matrices begin at zero.
        out, lines = self.trained("quirks", RECORD_QUIRKS=1, LATE_QAT_THRESHOLD=0.6, TTT_LR=0.1, TIE_EMBEDDINGS=0)
        self.assertTrue(any(line.startswith("late_qat:enabled") for line in lines))
        model = out / "final_model.int6.ptz"
        self.assertEqual(self.eval(model), exact_scores(lines))
        self.assertNotIn("metrics.jsonl", self.errors)
        alone = self.folder / "quirks_alone"
        alone.mkdir()
        for name in (model.name, "config.json"):
            shutil.copy(out / name, alone)
        without = self.eval(alone / model.name)["legal_ttt_exact"]
        self.assertRegex(self.errors, "no record of QAT is stored with it; taken as trained without it, .*quirks_alone/metrics.jsonl")
        self.assertNotEqual(without, exact_scores(lines)["legal_ttt_exact"])
        self.assertEqual(self.eval(alone / model.name, "--qat-enabled")["legal_ttt_exact"],
                         exact_scores(lines)["legal_ttt_exact"])
        self.assertNotIn("metrics.jsonl", self.errors)
        shutil.copy(out / f"{model.name}.record.json", alone)
        self.assertEqual(self.eval(alone / model.name)["legal_ttt_exact"], exact_scores(lines)["legal_ttt_exact"])

    def test_what_only_training_reads_may_contradict(self):
        out, lines = self.trained("int6")
        scores = self.eval(out / "final_model.int6.ptz", "--train-batch-tokens", 1000, TTT_ENABLED=0)
        self.assertEqual(scores["final_int6_roundtrip_exact"], exact_scores(lines)["final_int6_roundtrip_exact"])
        self.refuses(78, "VAL_BATCH_SIZE=100", "eval", "--init-from", out / "final_model.pt", "--val-batch-size", 100)


class QuantizeTest(ModelTest):
    def test_writes_the_artifact_of_the_run(self):
        for name, artifact, suffix in (("int6", "int6", "int6.ptz"), ("int8", "int8_zlib", "int8.ptz")):
            out, lines = self.trained(name, **({} if name == "int6" else dict(ARTIFACT=artifact, TTT_ENABLED=0)))
            for model in ("final_model.safetensors", "final_model.pt"):
                made = self.folder / f"made.{suffix}"
                printed = self.prints("quantize", "--init-from", out / model, "--out", made, "--artifact", artifact)
                self.assertEqual(made.read_bytes(), (out / f"final_model.{suffix}").read_bytes())
                sizes = [line for line in lines if line.startswith(("Serialized model int", "Total submission"))]
                self.assertEqual(printed.splitlines()[:2], sizes)

    def test_the_artifact_has_the_files_dtypes_whatever_this_machine_computes_in(self):
        for dtype, other in (("bf16", "fp32"), ("fp32", "bf16")):
            out, _ = self.trained(dtype, ARTIFACT="int8_zlib", COMPUTE_DTYPE=dtype, TTT_ENABLED=0, EVAL_STRIDE=0, ITERATIONS=2)
            made = self.folder / "made.int8.ptz"
            self.prints("quantize", "--init-from", out / "final_model.pt", "--out", made, "--artifact", "int8_zlib",
                        "--compute-dtype", other)
            self.assertEqual(made.read_bytes(), (out / "final_model.int8.ptz").read_bytes())
            self.assertEqual(b"bfloat16" in zlib.decompress(made.read_bytes()), dtype == "bf16")

    def test_settings_of_training_and_validation_may_contradict(self):
        out, _ = self.trained("int6")
        made = self.folder / "made.int6.ptz"
        self.prints("quantize", "--init-from", out / "final_model.pt", "--out", made, *UNFIT)
        self.assertEqual(made.read_bytes(), (out / "final_model.int6.ptz").read_bytes())

    def test_refuses(self):
        out, _ = self.trained("int6")
        raw = out / "final_model.pt"
        self.refuses(64, "expected --out FILE", "quantize", "--init-from", raw)
        self.refuses(64, "ARTIFACT=none", "quantize", "--init-from", raw, "--out", "x", "--artifact", "none")
        self.refuses(64, "found an artifact", "quantize", "--init-from", out / "final_model.int6.ptz", "--out", "x")
        self.refuses(73, "missing/x", "quantize", "--init-from", raw, "--out", "missing/x")
        self.refuses(78, "other shapes", "quantize", "--init-from", raw, "--out", "x", "--model-dim", 16)


if __name__ == "__main__":
    unittest.main()
