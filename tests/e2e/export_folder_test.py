"""`train_gpt export --hf`: what the folder holds, the formulas of its code, which files of a run it is made from, and
what is refused."""

import json
import re
import shutil
import types
import unittest

import torch
from exports import TOKENS, TRAINED, ExportTest, load_modeling, loss_of, plain_model
from harness import SMALL, SOURCE, TOKENIZER


class FolderTest(ExportTest):
    models = {"record": TOKENS | TRAINED | {"ARTIFACT": "int6"}}

    def test_of_every_file_of_a_run(self):
        folder, losses = self.exported("record")
        run = self.folder / "record"
        for file in ("final_model.pt", "final_model.int6.ptz"):
            target = self.folder / f"{file}.hf"
            target.mkdir()  # an empty folder is accepted
            # Export ignores training settings, so they need not be consistent.
            done = self.export("--hf", target, "--init-from", run / file, "--train-batch-tokens", 1000)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        for file in ("config.json", "model.safetensors"):
            self.assertEqual((self.folder / "final_model.pt.hf" / file).read_bytes(), (folder / file).read_bytes())
        model = plain_model(self.folder / "final_model.int6.ptz.hf")
        self.assert_loss("record, int6", loss_of(model, *self.validation_rows("record")),
                         losses["final_int6_roundtrip_exact"])

    def test_the_model_card_has_data_tokens_scores_and_settings_and_no_path(self):
        folder, losses = self.exported("record")
        card = (folder / "README.md").read_text()
        front, body = card.split("---\n", 2)[1:]
        self.assertIn("library_name: transformers\n", front)
        self.assertNotIn("\nlicense:", front)  # left open
        for words in ("# test\n", "trained by train_gpt (RECIPE=record) on shards, for 8 steps of 512 tokens, 4096 in all.",
                      "\nMODEL_DIM=32\n", "## Licence\n\nNot stated yet."):
            self.assertIn(words, body)
        scores = dict(re.findall(r"^\| (\S.*?) \| ([\d.]+) \|", body, re.M))
        self.assertEqual(f"{losses['val']:.4f}", scores["validation after step 8"])
        finals = [name for name in losses if isinstance(name, str) and name != "val"]
        self.assertTrue(finals)
        for name in finals:
            self.assertEqual(f"{losses[name]:.4f}", scores[name])
        for path in (str(self.folder), str(self.shards), "TOKENIZER_PATH", "OUTPUT_DIR"):
            self.assertNotIn(path, card)

    def test_a_model_without_its_run_has_a_shorter_card(self):
        self.exported("record")
        alone = self.folder / "cardless"
        alone.mkdir()
        shutil.copy(self.folder / "record" / "final_model.safetensors", alone)
        settings = SMALL | {"TOKENIZER_PATH": ""}
        done = self.run_gpt("export", "--hf", self.folder / "cardless.hf", "--init-from", alone / "final_model.safetensors", **settings)
        self.assertEqual(0, done.returncode, done.stderr)
        card = (self.folder / "cardless.hf" / "README.md").read_text()
        self.assertIn("(RECIPE=record) for 8 steps.", card)
        self.assertNotIn("## Scores", card)

    def test_tokenizer_goes_along_unless_there_is_none(self):
        folder, _ = self.exported("record")
        self.assertEqual((folder / "tokenizer.model").read_bytes(), TOKENIZER.read_bytes())
        generation = json.loads((folder / "generation_config.json").read_text())
        self.assertEqual(generation, {"bos_token_id": 1})
        alone = self.folder / "alone"
        done = self.export("--hf", alone, "--init-from", self.folder / "record" / "final_model.pt",
                           "--tokenizer-path", "")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse((alone / "tokenizer.model").exists())

    def test_settings_may_come_without_a_config(self):
        folder, _ = self.exported("record")
        lone = self.folder / "lone"
        lone.mkdir()
        shutil.copy(self.folder / "record" / "final_model.safetensors", lone)
        flags = [word for name, value in SMALL.items() for word in ("--" + name.lower().replace("_", "-"), value)]
        done = self.export("--hf", lone / "hf", "--init-from", lone / "final_model.safetensors", *flags,
                           "--tokenizer-path", TOKENIZER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((lone / "hf" / "config.json").read_text(), (folder / "config.json").read_text())

    def test_errors(self):
        folder, _ = self.exported("record")
        weights = self.folder / "record" / "final_model.safetensors"
        new = self.folder / "new"
        cut = self.folder / "cut.safetensors"
        cut.write_bytes(weights.read_bytes()[:-1])
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(weights, other)
        (other / "config.json").write_text("{}")
        for code, word, flags in (
                (64, "expected --hf DIR", ["--init-from", weights]),
                (64, "expected --init-from MODEL", ["--hf", new]),
                (64, "unknown flag --no-such", ["--hf", new, "--init-from", weights, "--no-such", "1"]),
                (65, "cut.safetensors", ["--hf", new, "--init-from", cut]),
                (78, "qo_bank", ["--hf", new, "--init-from", weights, "--model-dim", "64"]),
                (78, "expected the config.json of the run", ["--hf", new, "--init-from", other / weights.name]),
                (66, "none.pt", ["--hf", new, "--init-from", self.folder / "none.pt"]),
                (73, "not empty", ["--hf", folder, "--init-from", weights]),
                (73, "cannot be created", ["--hf", cut, "--init-from", weights]),
                (78, "kv_bank", ["--hf", new, "--init-from", weights, "--num-kv-heads", "1"]),
                (78, "NUM_HEADS=4 is no multiple of NUM_KV_HEADS=3",
                 ["--hf", new, "--init-from", weights, "--num-kv-heads", "3"])):
            with self.subTest(word):
                done = self.export(*flags)
                self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
                self.assertEqual(len(errors), 1, done.stderr)
                self.assertIn(word, done.stderr)
                self.assertFalse(new.exists())


class FormulasTest(unittest.TestCase):
    modeling = load_modeling(SOURCE / "src" / "commands" / "hf" / "modeling_train_gpt.py")
    windows = load_modeling(SOURCE / "src" / "commands" / "hf" / "train_gpt_common.py").WindowStage

    def test_bigram_hash_wraps_as_int32(self):
        ids = torch.tensor([[1, 5, 1023, 7, 7], [3, 60000, 1, 1, 1]])
        rows = self.modeling.bigram_hash(ids, ids.roll(1, 1), torch.arange(5).expand(2, 5) == 0, 1536)
        self.assertEqual(rows[0].tolist(), [1535, 892, 868, 1140, 1433])
        self.assertEqual(rows[1, :2].tolist(), [1535, 1121])

    def test_segments_begin_with_a_text_and_after_so_many_tokens(self):
        config = types.SimpleNamespace(rope_base=1e4, train_seq_len=8, rope_yarn="auto", rope_dims=4, bos_id=1,
                                       document_attention="1", segment_limit=3)
        ids = torch.tensor([[1, 5, 5, 5, 5, 1, 5, 1, 1], [0, 0, 5, 5, 0, 5, 5, 1, 5]])
        places = self.modeling.Places(ids, torch.tensor([[1] * 9, [0, 0, 1, 1, 0, 1, 1, 1, 1]]), config)
        self.assertEqual(places.segment[0].tolist(), [0, 0, 0, 3, 3, 5, 5, 7, 8])
        self.assertEqual(places.segment[1][places.real[1]].tolist(), [0, 0, 0, 3, 4, 4])
        self.assertEqual(places.begins[1][places.real[1]].tolist(), [True, False, False, True, True, False])

    def test_rope_base_grows_with_rows_beyond_1024(self):
        for length, trained, base in ((2048, 1024, 22081.79), (5, 2048, 22081.79), (1024, 32, 1e4)):
            config = types.SimpleNamespace(rope_base=1e4, train_seq_len=trained, rope_yarn="auto")
            self.assertAlmostEqual(self.modeling.rope_base(length, config, 16), base, places=2)

    def test_record_43_has_the_windows_and_scales_of_its_script(self):
        config = types.SimpleNamespace(
            rope_base=1024.0, attention_scale=0.1, window_yarn=True, window_block=128,
            short_window="1,3@0.3,5@0.6,6@0.9", long_window="3,7@0.3,11@0.6,13@0.9", final_long_window=20)
        for stage, (short, long, scale) in enumerate(((1, 3, 0.1), (3, 7, 0.116946), (5, 11, 0.127518),
                                                      (6, 13, 0.131778), (6, 20, 0.131778))):
            config.train_gpt = {"stage": stage}
            found = self.windows(config, head_dim=128)
            self.assertEqual((found.short, found.long), (128 * short, 128 * long))
            self.assertAlmostEqual(found.scale, scale, places=6)
            self.assertEqual(len(found.frequencies), 32)
            # The first pair rotates quickly in any window, the last ones slowly.
            self.assertEqual(float(found.frequencies[0]), 1)
            self.assertAlmostEqual(float(found.frequencies[31]) * 1024 * min(long, 13) / 3, 1, places=6)


if __name__ == "__main__":
    unittest.main()
