"""A small byte-level vocabulary in GPT-2's file format, from text to scores and samples."""

import json
import math
import pathlib
import struct
import subprocess
import unittest

import tokenizers
from harness import BUILD, TEXT, TOKENIZER, read_events, train_losses, write_shard
from model_commands import ModelTest

TOLD = json.loads(TOKENIZER.with_name("gpt2_tokens.json").read_text())
PIECES, END_OF_TEXT = 701, 700
PADDED = 704  # VOCAB_SIZE, padded as 50,257 pieces are to 50,304


def tokens_of(shard):
    count = struct.unpack_from("<3i", shard)[2]
    return struct.unpack_from(f"<{count}H", shard, 1024)


def scores(events):
    """Returns [(val_loss, val_loss_unmasked)] of all validations and final scores."""
    return [(event["val_loss"], event.get("val_loss_unmasked")) for event in events if "val_loss" in event]


class Gpt2VocabularyTest(ModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.merges, cls.table = cls.folder / "vocab.bpe", cls.folder / "small.tiktoken"
        cls.merges.write_text(TOLD["merge_list"])
        cls.table.write_text(TOLD["rank_table"])
        cls.texts = sorted(str(path) for path in TEXT.iterdir() if path.is_file() and not path.is_symlink())
        cls.shards = cls.make_shards(cls.merges, "merged")

    @classmethod
    def make_shards(cls, tokenizer, name, *words):
        own = "--own-merges" if tokenizer == cls.merges else "--pattern=gpt2"
        subprocess.run([BUILD / "make_shards", own, "--tokenizer", tokenizer, "--out", cls.folder / name, *(words or (
            "--val-fraction", "0.2", *cls.texts))], check=True, stdout=subprocess.DEVNULL)
        return cls.folder / name

    def trained(self):
        return super().trained("gpt2", VOCAB_SIZE=PADDED, TOKENIZER_PATH=self.merges, ARTIFACT="none", TTT_ENABLED=0,
                               EVAL_STRIDE=0, TRAIN_BATCH_TOKENS=1024)

    def test_both_files_make_the_same_shards_with_an_end_of_text_before_each_document(self):
        table = self.make_shards(self.table, "ranked")
        for shard in self.shards.iterdir():
            self.assertEqual(shard.read_bytes(), (table / shard.name).read_bytes())
        text = self.folder / "two.txt"
        text.write_text(TOLD["samples"][16]["text"] + "\n\n" + TOLD["samples"][17]["text"])
        two = self.make_shards(self.merges, "two", "--val-fraction", "0", "--document-separator", "blank-line", text)
        self.assertEqual(list(tokens_of((two / "fineweb_train_000000.bin").read_bytes())),
                         [END_OF_TEXT, *TOLD["samples"][16]["ids"], END_OF_TEXT, *TOLD["samples"][17]["ids"]])

    def test_bits_per_byte_count_the_bytes_of_each_piece(self):
        out, lines = self.trained()
        self.assertIn(f"val_bpb:enabled tokenizer_kind=gpt2 tokenizer_path={self.merges}", lines)
        self.assertIn("tokenizer_pieces:701 (the other 3 ids of VOCAB_SIZE=704 are no token, of 0 bytes)", lines)
        scored = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        last = [event for event in scored if event["event"] == "val"][-1]
        predicted = tokens_of((self.shards / "fineweb_val_000000.bin").read_bytes())[1:1025]
        text_bytes = sum(TOLD["byte_counts"][token] for token in predicted)
        self.assertAlmostEqual(last["val_bpb"], last["val_loss"] * 1024 / math.log(2) / text_bytes, places=6)

    def test_the_audit_finds_every_byte(self):
        out, _ = self.trained()
        text = self.prints("eval", "--init-from", out / "final_model.pt", "--audit", "--baselines")
        self.assertRegex(text, r"(?m)^audit documents:\d+ tokens:\d+ counted_bytes:(\d+) text_bytes:\1$")
        self.assertRegex(text, r"(?m)^baseline token_bigram val_bpb:\d")

    def test_sample_continues_a_text_of_any_characters(self):
        out, _ = self.trained()
        for prompt in ("The licence", "Zwölf ☃ 日本語 👩‍🚀", ""):
            text = self.prints("sample", "--init-from", out / "final_model.pt", "--tokens", 60, "--temperature", 3,
                               "--prompt", prompt)
            self.assertTrue(text.startswith(prompt))
            self.assertGreater(len(text), len(prompt) + 10)

    def test_text_is_tokenised_while_training_runs(self):
        text = self.folder / "text.txt"
        text.write_text("\n\n".join(pathlib.Path(path).read_text(errors="replace") for path in self.texts))
        events = self.train(DATA_PATH=text, VOCAB_SIZE=PADDED, TOKENIZER_PATH=self.table, TOKENIZER_PATTERN="gpt2", output="text")
        self.assertTrue(all("val_bpb" in event for event in events if event["event"] == "val"))

    def test_merges_of_another_number_than_gpt2s_are_a_file_cut_short_unless_told(self):
        out = self.folder / "other_merges"
        done = subprocess.run([BUILD / "make_shards", "--tokenizer", self.merges, "--out", out, *self.texts],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 65, done.stderr)
        self.assertIn(f"{self.merges} has other merges than GPT-2's (expected 50000, found 444); copy the file again, or "
                      "pass --own-merges if the vocabulary is your own", done.stderr)
        self.assertFalse(out.exists())

    def test_ids_that_are_no_piece_of_the_tokenizer_are_refused_before_training(self):
        cut = self.folder / "cut.bpe"
        lines = TOLD["merge_list"].splitlines(keepends=True)
        cut.write_text("".join(lines[:-100]))
        expected = f"(expected below {PIECES - 100}, the tokenizer's pieces, found "
        settings = dict(VOCAB_SIZE=PADDED, TOKENIZER_PATH=cut, DATA_PATH=self.shards)
        self.fails(65, "fineweb_val_000000.bin at token 0 ", expected, output="cut", **settings)
        self.assertFalse((self.folder / "cut" / "metrics.jsonl").exists())
        out, _ = self.trained()
        self.refuses(65, "fineweb_val_000000.bin at token 0 " + expected, "eval", "--init-from", out / "final_model.pt",
                     TOKENIZER_PATH=cut)
        # The ids of the validation shard are valid; training ids are checked when they are read, before a step
        # uses them.
        mixed = self.folder / "mixed"
        mixed.mkdir()
        write_shard(mixed / "fineweb_val_000000.bin", [300] * 3000)
        write_shard(mixed / "fineweb_train_000000.bin", [300] * 3000 + [PIECES - 100] + [300] * 3000)
        self.fails(65, f"fineweb_train_000000.bin at token 3000 {expected}{PIECES - 100})", output="mixed", WARMUP_STEPS=0,
                   TRAIN_BATCH_TOKENS=512, **{**settings, "DATA_PATH": mixed})
        losses = [event for event in read_events(self.folder / "mixed") if event["event"] == "train"]
        self.assertEqual(len(losses), 5)  # one for each 512 tokens

    def test_a_smaller_vocabulary_is_refused(self):
        self.fails(78, "VOCAB_SIZE=512 does not match tokenizer vocab_size=701", VOCAB_SIZE=512,
                   TOKENIZER_PATH=self.merges, output="small")

    def test_the_exported_tokenizer_gives_the_same_ids(self):
        out, _ = self.trained()
        for file in (self.merges, self.table):
            with self.subTest(file.name):
                folder = self.folder / f"{file.name}.hf"
                pattern = "gpt2" if file == self.table else ""
                self.prints("export", "--hf", folder, "--init-from", out / "final_model.pt", "--tokenizer-path", file,
                            "--tokenizer-pattern", pattern)
                tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
                self.assertEqual(tokenizer.get_vocab_size(), PIECES)
                # Except samples that contain the special piece's name as text.
                for sample in (sample for sample in TOLD["samples"] if "<|endoftext|>" not in sample["text"]):
                    self.assertEqual(tokenizer.encode(sample["text"]).ids, sample["ids"], sample["text"])
                    self.assertEqual(tokenizer.decode(sample["ids"]), sample["text"])
                self.assertEqual(tokenizer.encode("<|endoftext|>").ids, [END_OF_TEXT])
                config = json.loads((folder / "tokenizer_config.json").read_text())
                self.assertEqual(config["bos_token"], tokenizer.id_to_token(END_OF_TEXT))

    def masked(self, output, mask=1, **settings):
        """Returns the events of a run with VALIDATION_MASK."""
        return self.train(**{"output": output, "VOCAB_SIZE": PADDED, "TOKENIZER_PATH": self.merges,
                             "DATA_PATH": self.shards, "GRAD_ACCUM_STEPS": None, "TRAIN_BATCH_TOKENS": 1024,
                             "VAL_BATCH_SIZE": 2048, "VAL_TOKENS": 2048, "VALIDATION_MASK": mask, **settings})

    def test_the_mask_lowers_the_loss_of_canonical_text_and_changes_no_training(self):
        plain, masked = self.masked("plain", mask=0), self.masked("masked")
        self.assertEqual(train_losses(masked), train_losses(plain))
        self.assertEqual([unmasked for _, unmasked in scores(masked)], [loss for loss, _ in scores(plain)])
        self.assertEqual(len(scores(masked)), 4)  # at 0, 4 and 8, and of the averaged weights
        for loss, unmasked in scores(masked):
            self.assertLess(loss, unmasked)
        self.assertTrue(all(unmasked is None for _, unmasked in scores(plain)))
        two = self.masked("two", ranks=2)
        for found, expected in zip(sum(scores(two), ()), sum(scores(masked), ()), strict=True):
            self.assertAlmostEqual(found, expected, delta=2e-6 * expected)

    def test_eval_scores_with_the_mask_of_the_run(self):
        run = self.masked("scored")
        self.prints("eval", "--init-from", self.folder / "scored", "--output-dir", self.folder / "eval",
                    "--documents", self.folder / "documents.jsonl")
        expected = scores(run)[-1]
        line = next(line for line in self.prints("eval", "--init-from", self.folder / "scored").splitlines()
                    if line.startswith("final_validation val_loss"))
        self.assertIn(f"val_loss:{expected[0]:.4f} val_loss_unmasked:{expected[1]:.4f} ", line)
        documents = [json.loads(line) for line in (self.folder / "documents.jsonl").read_text().splitlines()]
        self.assertAlmostEqual(sum(document["nll"] for document in documents) / 2048, expected[0], places=5)

    def test_a_target_that_the_mask_names_costs_60(self):
        # A merge makes " a" of these two, so that no text has them side by side.
        space, a = (TOLD["samples"][i]["ids"][0] for i in (1, 4))
        shards = self.folder / "spelt"
        shards.mkdir()
        for split in ("train", "val"):
            write_shard(shards / f"fineweb_{split}_000000.bin", [space, a] * 4000)
        for loss, unmasked in scores(self.masked("of-spelt", DATA_PATH=shards, ITERATIONS=2)):
            self.assertGreater(loss, unmasked + 25)  # half of the targets

    def test_a_vocabulary_of_other_things_is_refused(self):
        path = self.folder / "vocabulary.json"
        for content, found in (([], "array"), ({"6g": 1}, "6g"), ({"61": 5000}, "5000"), ({"61": 1}, 'the byte "00"')):
            path.write_text(json.dumps(content))
            self.fails(65, f"VALIDATION_MASK_VOCABULARY={path}: ", found, VALIDATION_MASK=1, VALIDATION_MASK_VOCABULARY=path)
        self.fails(78, "expected a byte-level BPE, found sentencepiece", VALIDATION_MASK=1)
        self.fails(78, "set one of TOKENIZER_PATH and VALIDATION_MASK_VOCABULARY", VALIDATION_MASK=1, TOKENIZER_PATH="")


if __name__ == "__main__":
    unittest.main()
