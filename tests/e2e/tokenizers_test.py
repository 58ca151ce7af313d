"""Bits per byte with several kinds of tokenizers: the bytes are the text's, or no bits per byte are reported."""

import json
import math
import struct
import subprocess
import unittest

from harness import BUILD, TEXT, TOKENIZER, VOCAB, write_shard
from model_commands import ModelTest

WORDS, SUFFIX, ODD, CASEOPS = (TOKENIZER.with_name(f"data_{name}.model") for name in ("words", "suffix", "odd", "caseops"))
PIECES = {WORDS: 419, SUFFIX: 399, ODD: 300, CASEOPS: 420, TOKENIZER: VOCAB}
RUN = dict(ITERATIONS=1, WARMUP_STEPS=0, VAL_LOSS_EVERY=0, EVAL_STRIDE=16, VAL_TOKENS=0, TTT_ENABLED=0,
           TRAIN_BATCH_TOKENS=1024, VAL_BATCH_SIZE=16384, NUM_LAYERS=1, VE_LAYERS="0")


def text_files():
    """Returns the eleven shortest licences: bytes are counted for whole documents, which must not take long."""
    files = [path for path in TEXT.iterdir() if path.is_file() and not path.is_symlink()]
    return sorted(files, key=lambda path: (path.stat().st_size, path))[:11]


def shard_numbers(folder, split):
    """Returns the numbers of all files of a split, or of its byte sidecar."""
    files = sorted(folder.glob(f"fineweb_{split}_[0-9]*.bin"))
    return [number[0] for file in files for number in struct.iter_unpack("<H", file.read_bytes()[1024:])]


def counted_bytes(event, predictions):
    return event["val_loss"] * predictions / math.log(2) / event["val_bpb"]


class TokenizersTest(ModelTest):
    def make_shards(self, tokenizer, name, *flags):
        shards = self.folder / f"{name}.shards"
        if not shards.exists():
            subprocess.run([BUILD / "make_shards", "--tokenizer", tokenizer, "--out", shards, "--val-fraction", "0.2",
                            *flags, *text_files()], check=True, stdout=subprocess.DEVNULL)
        return shards

    def run_with(self, tokenizer, name, *flags, **settings):
        """Returns the folder and events of a run on shards of the licences made with this tokenizer and these flags."""
        shards = self.make_shards(tokenizer, name, *flags)
        events = self.train(output=name, DATA_PATH=shards, TOKENIZER_PATH=tokenizer,
                            **{**RUN, "VOCAB_SIZE": PIECES[tokenizer], **settings})
        return self.out, events

    def audit(self, out):
        text = self.prints("eval", "--init-from", out / "final_model.pt", "--audit", EVAL_STRIDE=0)
        return dict(word.split(":") for word in text.splitlines()[-1 - ("spelled_spaces" in text)].split()[1:]), text

    def test_every_way_to_write_spaces_counts_the_bytes_of_the_text(self):
        validation = text_files()[4::5]
        for tokenizer in (WORDS, SUFFIX):
            with self.subTest(tokenizer.name):
                out, events = self.run_with(tokenizer, tokenizer.stem)
                found, text = self.audit(out)
                # Except the last document, which may be truncated.
                text_bytes = str(sum(path.stat().st_size for path in validation[:-1]))
                self.assertEqual((found["documents"], found["counted_bytes"], found["text_bytes"]),
                                 (str(len(validation) - 1), text_bytes, text_bytes))
                self.assertIn("audit spelled_spaces:", text)
                self.assertNotIn("tokenizer_normalises", text)
                predictions = next(event["val_tokens"] for event in events if event["event"] == "start")
                counts = {event["name"]: counted_bytes(event, predictions) for event in events if event["event"] == "final"}
                self.assertEqual(len(counts), 2)  # for whole sequences, for windows
                self.assertEqual(len(set(map(round, counts.values()))), 1, counts)
                _, shared = self.run_with(tokenizer, tokenizer.stem, ranks=2)
                for event in (event for event in shared if event["event"] == "final"):
                    self.assertAlmostEqual(counted_bytes(event, predictions), counts[event["name"]], delta=0.5)

    def test_a_tokenizer_that_normalises_is_named(self):
        self.train(output="normalising", **RUN)
        self.assertIn("tokenizer_normalises:extra_whitespaces (val_bpb is of the normalised text)", self.lines)

    def test_unknown_pieces_count_nothing_which_a_warning_says_and_the_audit_sees(self):
        out, events = self.run_with(ODD, "odd")
        unknown = next(event["val_unknown_tokens"] for event in events if event["event"] == "start")
        self.assertGreater(unknown, 0)
        self.assertEqual([f"{unknown} of the validation tokens are unknown pieces" in line for line in self.warnings], [True])
        self.assertTrue(all("val_bpb" in event for event in events if event["event"] in ("val", "final")))
        self.refuses(65, "documents val_bpb counts other bytes than their text has", "eval", "--init-from",
                     out / "final_model.pt", "--audit", EVAL_STRIDE=0)

    def test_where_unknown_pieces_may_hide_spaces_there_are_no_bits_per_byte(self):
        no_space = self.folder / "no_space.model"
        no_space.write_bytes(ODD.read_bytes().replace(b"\n\3\xe2\x96\x81", b"\n\3zqy"))
        PIECES[no_space] = PIECES[ODD]
        out, events = self.run_with(no_space, "no_space")
        self.assertFalse([event for event in events if "val_bpb" in event])
        unknown = next(event["val_unknown_tokens"] for event in events if event["event"] == "start")
        self.assertGreater(unknown, 0)
        reason = f"val_bpb:unavailable ({unknown} of the validation tokens are unknown pieces, which may hide spaces"
        self.assertEqual([line[:len(reason)] for line in self.lines if "val_bpb" in line], [reason])
        init = ("eval", "--init-from", out / "final_model.pt")
        text = self.prints(*init, EVAL_STRIDE=0)
        self.assertEqual([line[:len(reason)] for line in text.splitlines() if "val_bpb" in line], [reason])
        self.refuses(65, "unknown pieces in", *init, "--baselines", EVAL_STRIDE=0)

    def test_capitals_are_operators_and_come_back(self):
        out, events = self.run_with(CASEOPS, "caseops", "--caseops", CASEOPS_ENABLED=1)
        first, all_capitals, later = 4, 5, 6
        self.assertLess({first, all_capitals, later}, set(shard_numbers(self.folder / "caseops.shards", "val")))
        found, _ = self.audit(out)
        self.assertEqual(found["counted_bytes"], found["text_bytes"])
        prompt = "The NASA McDonald"
        sample = ("sample", "--prompt", prompt, "--tokens", 400, "--temperature", 3, "--init-from")
        text = self.prints(*sample, out / "final_model.pt")
        self.assertTrue(text.startswith(prompt), text)
        self.assertRegex(text[len(prompt):], "[A-Z]")
        self.assertNotRegex(text, "[\ue001-\ue004]")
        exported = self.folder / "caseops.exported"
        self.prints("export", "--init-from", out / "final_model.pt", "--hf", exported)
        self.assertEqual(self.prints(*sample, exported), text)
        for command in (("eval", "--audit"), ("sample", "--prompt", "a"), ("export", "--hf", self.folder / "refused")):
            self.refuses(78, "is for CaseOps", *command, "--init-from", out / "final_model.pt", CASEOPS_ENABLED=0)
        self.refuses(78, "is not for CaseOps", *sample, out / "final_model.pt", "--tokenizer-path", TOKENIZER,
                     "--vocab-size", VOCAB)
        self.prints("eval", "--init-from", out / "final_model.pt", "--baselines", EVAL_STRIDE=0)

    def test_a_sidecar_counts_the_bytes_of_the_text_before_normalisation(self):
        for tokenizer, flags in ((TOKENIZER, ()), (CASEOPS, ("--caseops",))):
            with self.subTest(tokenizer.name):
                name = f"{tokenizer.stem}.sidecar"
                settings = {"CASEOPS_ENABLED": len(flags)}
                out, events = self.run_with(tokenizer, name, "--byte-sidecar", "--shard-tokens", "9999", *flags, **settings)
                shards = self.folder / f"{name}.shards"
                entries = shard_numbers(shards, "val_bytes")
                start = next(event for event in events if event["event"] == "start")
                predictions = start["val_tokens"]
                expected = sum(entries[1:predictions + 1])
                counts = [counted_bytes(event, predictions) for event in events if event["event"] == "final"]
                self.assertEqual([round(count) for count in counts], [expected, expected])
                pattern = f"{shards}/fineweb_val_bytes_*.bin"
                self.assertIn(f"val_bytes:sidecar pattern={pattern}", self.lines)
                self.assertIn("tokenizer_normalises:extra_whitespaces (val_bpb is of the text before that)", self.lines)
                self.assertEqual(start["byte_sidecar"], pattern)
                _, shared = self.run_with(tokenizer, name, ranks=2, **settings)
                for event in (event for event in shared if event["event"] == "final"):
                    self.assertAlmostEqual(counted_bytes(event, predictions), expected, delta=0.5)
                init = ("eval", "--init-from", out / "final_model.pt")
                scores = [self.bits_per_byte(*init, **more) for more in ({}, {"BYTE_COUNTS": "tokenizer"})]
                self.assertLess(scores[0], scores[1])  # the text before has more bytes
                self.assertIn("audit differ:", self.prints(*init, "--audit", EVAL_STRIDE=0))
                without_tokenizer = self.bits_per_byte(*init, TOKENIZER_PATH="", CASEOPS_ENABLED=0)
                self.assertEqual(without_tokenizer, scores[0])

    def bits_per_byte(self, *words, **settings):
        """Returns the last val_bpb that a command prints."""
        return float(self.prints(*words, EVAL_STRIDE=0, **settings).split("val_bpb:")[-1].split()[0])

    def test_a_sidecar_of_other_shards_is_refused(self):
        shards = self.make_shards(TOKENIZER, "refused", "--byte-sidecar")
        run = dict(RUN, DATA_PATH=shards)
        sidecar = shards / "fineweb_val_bytes_000000.bin"
        entries = shard_numbers(shards, "val_bytes")
        write_shard(sidecar, [1, *entries[1:]])
        self.fails(65, sidecar.parent, "expected 0 bytes for BOS, token 0 of the split, found 1", **run)
        write_shard(sidecar, entries[1:])
        self.fails(65, sidecar, f"expected {len(entries)} entries, one a token, found {len(entries) - 1}", **run)
        sidecar.unlink()
        self.fails(66, "BYTE_COUNTS=sidecar", **run, BYTE_COUNTS="sidecar")

    def test_an_audit_of_no_document_is_no_success(self):
        out, _ = self.run_with(WORDS, "data_words")
        shards = self.folder / "no_documents"
        shards.mkdir()
        write_shard(shards / "fineweb_val_000000.bin", [400] * 3000)
        self.refuses(65, "found no document", "eval", "--init-from", out / "final_model.pt", "--audit", EVAL_STRIDE=0,
                     DATA_PATH=shards)


if __name__ == "__main__":
    unittest.main()
