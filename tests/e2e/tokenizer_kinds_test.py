"""A small model trained, scored, sampled and exported with every kind of byte-level BPE, with ids of 16 and of 32 bits."""

import base64
import json
import pathlib
import struct
import unicodedata
import unittest

import tokenizers

import tokenizer_json_test

PIECES, WIDE_BEGIN = tokenizer_json_test.PIECES, 65000
WIDE_PIECES = WIDE_BEGIN + PIECES
RUN = dict(ARTIFACT="none", TTT_ENABLED=0, EVAL_STRIDE=0, TRAIN_BATCH_TOKENS=256, VAL_BATCH_SIZE=256, VAL_TOKENS=512,
           TRAIN_SEQ_LEN=32, ITERATIONS=3)
# Small batches: a head of so many pieces takes a millisecond per token.
WIDE_RUN = RUN | dict(MODEL_DIM=16, TRAIN_BATCH_TOKENS=64, VAL_BATCH_SIZE=64, VAL_TOKENS=64, TRAIN_SEQ_LEN=8)
TEXT = tokenizer_json_test.ODD.split("<|")[0]


def spelled():
    """Returns GPT-2's spelling of each byte."""
    usual = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in usual]
    return {byte: chr(byte) for byte in usual} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class TokenizerKindsTest(tokenizer_json_test.JsonTokenizers):
    def check(self, name, path, pieces, encode, **settings):
        """Trains on shards, scores, samples and exports; expects the ids that `encode` returns, and returns the run."""
        flags = [f"--{flag}={settings[setting]}" for setting, flag in
                 (("TOKENIZER_PATTERN", "pattern"), ("DOCUMENT_START", "document-start")) if setting in settings]
        shards, done = self.make_shards(path, "--val-fraction", "0.2", *flags)
        self.assertEqual(0, done.returncode, done.stderr)
        shard = (shards / "fineweb_train_000000.bin").read_bytes()
        wide = pieces > 65536
        magic, version, count = struct.unpack_from("<3i", shard)
        self.assertEqual((20240801, 7) if wide else (20240520, 1), (magic, version))
        self.assertEqual(1024 + (4 if wide else 2) * count, len(shard))
        ids = struct.unpack_from(f"<{count}{'I' if wide else 'H'}", shard, 1024)
        first = encode(self.documents[0])
        self.assertEqual(first, list(ids[1:1 + len(first)] if settings.get("DOCUMENT_START") != "none" else ids[:len(first)]))

        out, lines = self.trained(name, **RUN | dict(VOCAB_SIZE=pieces, TOKENIZER_PATH=path, DATA_PATH=shards) | settings)
        self.assertIn(f"val_bpb:enabled tokenizer_kind=bpe tokenizer_path={path}", lines)
        if settings.get("DOCUMENT_START") != "none":
            self.assertRegex(self.prints("eval", "--init-from", out, "--audit"),
                             r"(?m)^audit documents:\d+ tokens:\d+ counted_bytes:(\d+) text_bytes:\1$")
        sampled = self.prints("sample", "--init-from", out, "--prompt", "The licence", "--tokens", 8, "--seed", 1)
        self.assertTrue(sampled.startswith("The licence"), sampled)
        exported = self.folder / f"{name}.exported"
        self.prints("export", "--hf", exported, "--init-from", out)
        again = tokenizers.Tokenizer.from_file(str(exported / "tokenizer.json"))
        self.assertEqual(encode(TEXT), again.encode(TEXT).ids)
        return out, lines

    def test_tokenizer_json(self):
        tokenizer, path = self.tokenizer("llama3")
        self.check("json", path, PIECES, lambda text: tokenizer.encode(text).ids)

    def test_tokenizer_json_with_nfc(self):
        tokenizer, path = self.tokenizer("qwen", nfc=True)
        out, lines = self.check("nfc", path, PIECES, lambda text: tokenizer.encode(text).ids)
        self.assertIn("tokenizer_normalises:NFC (val_bpb is of the normalised text)", lines)
        # With a sidecar, bits per byte are of the text as it was.
        shards, done = self.make_shards(path, "--val-fraction", "0.2", "--byte-sidecar")
        self.assertEqual(0, done.returncode, done.stderr)
        entries = (shards / "fineweb_val_bytes_000000.bin").read_bytes()
        counted = sum(struct.unpack_from(f"<{struct.unpack_from('<3i', entries)[2]}H", entries, 1024))
        validation = self.documents[4::5]
        self.assertEqual(sum(len(text.encode()) for text in validation), counted)
        self.assertNotEqual(counted, sum(len(unicodedata.normalize("NFC", text).encode()) for text in validation))
        self.assertRegex(self.prints("eval", "--init-from", out, "--audit", DATA_PATH=shards, VAL_TOKENS=0),
                         r"(?m)^audit differ:[1-9]\d* \(the sidecar counts the bytes of the text before NFC\)$")

    def wide(self):
        """Returns a tokenizer most of whose ids are beyond 16 bits, and its file."""
        _, path = self.tokenizer("llama3")
        file = json.loads(path.read_text())
        file["model"]["vocab"] = {piece: WIDE_BEGIN + number for piece, number in file["model"]["vocab"].items()}
        for token in file["added_tokens"]:
            token["id"] += WIDE_BEGIN
        wide = self.folder / "wide" / "tokenizer.json"
        wide.parent.mkdir(exist_ok=True)
        wide.write_text(json.dumps(file))
        return tokenizers.Tokenizer.from_file(str(wide)), wide

    def test_more_ids_than_16_bits_hold(self):
        tokenizer, path = self.wide()
        self.check("wide", path, WIDE_PIECES, lambda text: tokenizer.encode(text).ids, **WIDE_RUN)
        # Text that is tokenised during the run has the shards' ids, on two ranks as on one.
        text = self.folder / "text.jsonl"
        text.write_text("".join(json.dumps({"text": document}) + "\n" for document in self.documents[:400]))
        run = WIDE_RUN | dict(VOCAB_SIZE=WIDE_PIECES, TOKENIZER_PATH=path, DATA_PATH=text, GRAD_ACCUM_STEPS=None)
        found = [self.train(output=f"text{ranks}", ranks=ranks, **run) for ranks in (1, 2)]
        alone, shared = ([event["train_loss"] for event in events if event["event"] == "train"] for events in found)
        self.assertEqual(len(alone), 3)
        for one, other in zip(alone, shared):
            self.assertAlmostEqual(one, other, places=5)

    def test_every_order_reads_wide_shards(self):
        _, path = self.wide()
        shards, done = self.make_shards(path, "--val-fraction", "0.2", "--shuffle", "1")
        self.assertEqual(0, done.returncode, done.stderr)
        for order in ("stream", "strided", "documents", "aligned"):
            with self.subTest(order):
                events = self.train(output=f"wide_{order}", **WIDE_RUN, VOCAB_SIZE=WIDE_PIECES, TOKENIZER_PATH=path,
                                    DATA_PATH=shards, LOADER_ORDER=order, GRAD_ACCUM_STEPS=2)
                self.assertTrue(any("val_bpb" in event for event in events))
        self.fails(65, "token id out of range", "expected below vocab_size=60000", **RUN | dict(
            VOCAB_SIZE=60000, TOKENIZER_PATH="", DATA_PATH=shards))

    def test_a_table_of_ranks_with_its_pattern(self):
        tokenizer, path = self.tokenizer("llama3")
        bytes_of = {character: byte for byte, character in spelled().items()}
        vocabulary = json.loads(path.read_text())["model"]["vocab"]
        ranked = sorted((number, bytes(bytes_of[character] for character in piece))
                        for piece, number in vocabulary.items() if piece != "<|endoftext|>")
        table = self.folder / "table" / "mine.tiktoken"
        table.parent.mkdir(exist_ok=True)
        table.write_bytes(b"".join(base64.b64encode(piece) + b" %d\n" % rank for rank, (_, piece) in enumerate(ranked)))
        # <|endoftext|> is the first id there and the last one here.
        self.check("table", table, PIECES, lambda text: [number - 1 for number in tokenizer.encode(text).ids],
                   TOKENIZER_PATTERN="llama3")
        _, done = self.make_shards(table)
        self.assertEqual(78, done.returncode)
        self.assertIn("set TOKENIZER_PATTERN (make_shards --pattern)", done.stderr)

    def test_a_list_of_merges_with_the_ids_beside_it(self):
        tokenizer, path = self.tokenizer("gpt2")
        folder = self.folder / "merges"
        folder.mkdir(exist_ok=True)
        model = json.loads(path.read_text())["model"]
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"]))
        shards, done = self.make_shards(folder / "merges.txt", "--val-fraction", "0.2", "--own-merges")
        self.assertEqual(0, done.returncode, done.stderr)
        out, lines = self.trained("merges", **RUN, VOCAB_SIZE=PIECES, TOKENIZER_PATH=folder / "merges.txt", DATA_PATH=shards)
        self.assertIn(f"val_bpb:enabled tokenizer_kind=gpt2 tokenizer_path={folder}/merges.txt", lines)
        self.assertIn("audit documents:", self.prints("eval", "--init-from", out, "--audit"))
        exported = self.folder / "merges.exported"
        self.prints("export", "--hf", exported, "--init-from", out)
        again = tokenizers.Tokenizer.from_file(str(exported / "tokenizer.json"))
        self.assertEqual(tokenizer.encode(TEXT).ids, again.encode(TEXT).ids)

    def test_documents_may_begin_with_no_token_or_another(self):
        tokenizer, path = self.tokenizer("qwen")
        self.check("without_start", path, PIECES, lambda text: tokenizer.encode(text).ids, DOCUMENT_START="none")
        file = json.loads(path.read_text())
        file["added_tokens"].append(file["added_tokens"][0] | {"id": PIECES, "content": "<|start|>"})
        other = self.folder / "other" / "tokenizer.json"
        other.parent.mkdir(exist_ok=True)
        other.write_text(json.dumps(file))
        out, _ = self.check("other_start", other, PIECES + 1, lambda text: tokenizer.encode(text).ids, DOCUMENT_START=PIECES)
        shard = (other.parent / "shards" / "fineweb_train_000000.bin").read_bytes()
        self.assertEqual(PIECES, struct.unpack_from("<H", shard, 1024)[0])
        config = json.loads((self.folder / "other_start.exported" / "generation_config.json").read_text())
        self.assertEqual(PIECES, config["bos_token_id"])
        # In a run that reads text as well, and a resumed one must have the same.
        text = self.folder / "text.txt"
        text.write_text("\n\n".join(self.documents[:300]))
        run = RUN | dict(VOCAB_SIZE=PIECES + 1, TOKENIZER_PATH=other, DATA_PATH=text, CHECKPOINT_EVERY=2)
        self.train(output="resumed", **run, DOCUMENT_START=PIECES)
        self.fails(78, "documents begin with", output="resumed", **run | dict(ITERATIONS=5, DOCUMENT_START="none"))
        _, done = self.make_shards(other, "--document-start", "300")
        self.assertEqual(78, done.returncode)
        self.assertIn("DOCUMENT_START=300 is no special piece", done.stderr)

    def test_a_pickle_is_refused_with_its_conversion(self):
        pickle = self.folder / "tokenizer.pkl"
        pickle.write_bytes(b"\x80\x04\x95" + bytes(100))
        _, done = self.make_shards(pathlib.Path(pickle))
        self.assertEqual(65, done.returncode)
        self.assertIn(f"tokenizer {pickle} is a pickle", done.stderr)


if __name__ == "__main__":
    unittest.main()
