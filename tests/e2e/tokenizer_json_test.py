"""tokenizer.json files that Python's tokenizers trains, with the pre-tokenisers of well-known models: ids, shards, scores,
samples and exports."""

import json
import pathlib
import random
import struct
import subprocess
import unittest

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from harness import BUILD, TEXT
from model_commands_test import ModelTest

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
NANOCHAT = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PIECES = 3000
PRE_TOKENIZERS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False), "llama3": split(LLAMA3), "qwen": split(QWEN),
    "nanochat": split(NANOCHAT), "o200k": split(O200K),
    "digits": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "whole": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    "comma": pre_tokenizers.Sequence([pre_tokenizers.Split(", ", "isolated"),
                                      pre_tokenizers.ByteLevel(add_prefix_space=False)])}
# Letters, digits, spaces and marks of many scripts, and what patterns treat apart.
ODD = ("it's IT'S I\u2019d we'LL 'Tis \u017f'\u017f 12345 \u0663\u0664\u0665 \u00bd\u00b2 na\u00efve \u0391\u03b2\u0393 \u041f\u0440\u0438\u0432\u0435\u0442 "
       "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 \u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f \ud55c\uad6d\uc5b4 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 "
       "e\u0301 \U0001f600\U0001f3fd\u200d\U0001f4bb a\u00a0b\u2003c\u2028d\u3000e\u180ef\u200bg\ufeffh \t\t x\r\n\r\n  y\n\n\n z ... !?!? a/b/c {}[]()<|endoftext|")


class TokenizerJsonTest(ModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        texts = [path.read_text() for path in sorted(TEXT.iterdir()) if path.is_file() and not path.is_symlink()]
        parts = [part for text in texts for part in text.split("\n\n") if part.strip()]
        draw = random.Random(5)
        characters = list(ODD)
        odd = ["".join(draw.choices(characters, k=draw.randint(1, 60))) for _ in range(2000)]
        cls.documents = [document for document in parts + [ODD] + odd if document.strip(" \t\r\n\v\f")]
        (cls.folder / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in cls.documents))

    def tokenizer(self, name, **model):
        """Trains a tokenizer; returns it and its file."""
        tokenizer = tokenizers.Tokenizer(models.BPE(**model))
        tokenizer.pre_tokenizer, tokenizer.decoder = PRE_TOKENIZERS[name], decoders.ByteLevel()
        tokenizer.train_from_iterator(self.documents[:3000], trainers.BpeTrainer(
            vocab_size=PIECES, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False))
        path = self.folder / name / "tokenizer.json"
        path.parent.mkdir(exist_ok=True)
        tokenizer.save(str(path))
        return tokenizer, path

    def make_shards(self, path, *words):
        out = path.parent / "shards"
        return out, subprocess.run([BUILD / "make_shards", "--tokenizer", path, "--out", out, "--force", *words,
                                    self.folder / "documents.jsonl"], capture_output=True, text=True, check=False)

    def ids_of(self, path):
        """Returns the ids of all documents by make_shards, without the piece before each."""
        out, done = self.make_shards(path, "--val-fraction", "0")
        self.assertEqual(0, done.returncode, done.stderr)
        data = (out / "fineweb_train_000000.bin").read_bytes()
        ids = struct.unpack_from(f"<{struct.unpack_from('<3i', data)[2]}H", data, 1024)
        documents = []
        for token in ids:
            if token == 0:
                documents.append([])
            else:
                documents[-1].append(token)
        return documents

    def test_ids_are_pythons_with_the_pre_tokenizers_of_many_models(self):
        for name in PRE_TOKENIZERS:
            tokenizer, path = self.tokenizer(name)
            expected = [encoded.ids for encoded in tokenizer.encode_batch(self.documents)]
            found = self.ids_of(path)
            self.assertEqual(len(expected), len(found))
            for text, theirs, ours in zip(self.documents, expected, found):
                with self.subTest(name, text=text[:80]):
                    self.assertEqual(theirs, ours)
            print(f"{name}: {len(found)} documents, {sum(map(len, found))} tokens alike")

    def test_a_model_is_trained_scored_sampled_and_exported(self):
        tokenizer, path = self.tokenizer("llama3")
        shards, done = self.make_shards(path, "--val-fraction", "0.2")
        self.assertEqual(0, done.returncode, done.stderr)
        out, lines = self.trained("json_tokenizer", VOCAB_SIZE=PIECES, TOKENIZER_PATH=path, DATA_PATH=shards, ARTIFACT="none", TTT_ENABLED=0,
                                  EVAL_STRIDE=0, TRAIN_BATCH_TOKENS=1024)
        self.assertIn(f"val_bpb:enabled tokenizer_kind=bpe tokenizer_path={path}", lines)
        audit = self.prints("eval", "--init-from", out, "--audit")
        self.assertIn("audit", audit)
        sampled = self.prints("sample", "--init-from", out, "--prompt", "The licence", "--tokens", 8, "--seed", 1)
        self.assertTrue(sampled.startswith("The licence"), sampled)
        exported = self.folder / "exported"
        self.prints("export", "--hf", exported, "--init-from", out)
        again = tokenizers.Tokenizer.from_file(str(exported / "tokenizer.json"))
        self.assertEqual(tokenizer.encode(ODD).ids, again.encode(ODD).ids)

    def test_what_is_not_read_is_named(self):
        _, path = self.tokenizer("gpt2")
        whole = json.loads(path.read_text())
        for change, words in (
                ({"normalizer": {"type": "NFC"}}, "a normalizer, NFC"),
                ({"pre_tokenizer": {"type": "Metaspace"}}, "the pre_tokenizer Metaspace"),
                ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "add_prefix_space"),
                ({"pre_tokenizer": None}, "the pre_tokenizer none"),
                ({"model": {"type": "WordPiece", "vocab": {}}}, "the model WordPiece"),
                ({"model": {"type": "Unigram", "vocab": []}}, "the model Unigram"),
                ({"model": whole["model"] | {"byte_fallback": True}}, "byte_fallback"),
                ({"model": whole["model"] | {"merges": ["a"]}}, 'the merge "a"'),
                ({"model": whole["model"] | {"merges": [["\u0120", "nothere"]]}}, 'a merge with "nothere"'),
                ({"model": whole["model"] | {"vocab": {"a": 1}}}, "no piece for the byte 0x00"),
                ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"\w+"}, "behavior": "Isolated"}}, r"has \w"),
                ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a{2}?"}, "behavior": "Isolated"}}, "a repeated interval"),
                ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[a[b]]"}, "behavior": "Isolated"}}, "a set within a set"),
                ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}}, "no pre_tokenizer ByteLevel"),
        ):
            path.write_text(json.dumps(whole | change))
            with self.subTest(words):
                _, done = self.make_shards(path)
                self.assertEqual(65, done.returncode, done.stdout + done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn(f"tokenizer {path}", done.stderr)
        path.write_text(json.dumps(whole)[:-20])
        self.assertIn("is no JSON", self.make_shards(path)[1].stderr)
        big = whole["model"]["vocab"] | {"\u0120zz": 70000}
        path.write_text(json.dumps(whole | {"model": whole["model"] | {"vocab": big}}))
        _, done = self.make_shards(path)
        self.assertEqual(78, done.returncode)
        self.assertIn("has the id 70000, too much for 16-bit token ids", done.stderr)


if __name__ == "__main__":
    unittest.main()
