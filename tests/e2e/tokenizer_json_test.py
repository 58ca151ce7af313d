"""tokenizer.json files that Python's tokenizers trains, with the pre-tokenisers of well-known models: their ids."""

import json
import pathlib
import random
import struct
import subprocess
import unicodedata
import unittest

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from harness import BUILD, TEXT
from model_commands import ModelTest

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

# Letters with one mark or more, alone in Unicode and not, of scripts with marks.
MARKED = ("\u1ec7\u1ed9\u01b0\u1edd\u0111\u00e9\u00f1\u00fc\u1e69\u0419\u0451\u1f00\u1f05\u1fa7\u1fb3\uac01\ub2ed\uac12\ud55c\u304c\u3071\u30d4\u0958\u0931\u09cb\u0bca"
          "\u0dde\u1026\ufb31\u05e9\u05c1\u05bc\u0622\u0645\u064e\u0651\u0e19\u0e49\u0e33\u0344\u0307\u0323\u0302\u0327\u0315abc  .\u4e00\u212b\u2126\uf900")


def unnormalised(text, draw):
    """Returns the text decomposed, with the marks behind each letter in any order."""
    parts = []
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.combining(character) and parts:
            parts[-1].insert(draw.randint(1, len(parts[-1])), character)
        else:
            parts.append([character])
    return "".join("".join(part) for part in parts)


class JsonTokenizers(ModelTest):
    """Documents, and tokenizer.json files that are trained on them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        texts = [path.read_text() for path in sorted(TEXT.iterdir()) if path.is_file() and not path.is_symlink()]
        parts = [part for text in texts for part in text.split("\n\n") if part.strip()]
        draw = random.Random(5)
        characters = list(ODD)
        odd = ["".join(draw.choices(characters, k=draw.randint(1, 60))) for _ in range(2000)]
        marked = [unnormalised("".join(draw.choices(MARKED, k=draw.randint(1, 40))), draw) for _ in range(2000)]
        # Documents that make_shards tokenises in parts.
        long = ["\n".join(parts[:100]), " word ".join(odd[:200]), " Wort, 19 ".join(marked[:200])]
        cls.documents = [document for document in parts + [ODD] + odd + marked + long if document.strip(" \t\r\n\v\f")]
        (cls.folder / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in cls.documents))

    def tokenizer(self, name, nfc=False, **model):
        """Trains a tokenizer; returns it and its file."""
        tokenizer = tokenizers.Tokenizer(models.BPE(**model))
        tokenizer.pre_tokenizer, tokenizer.decoder = PRE_TOKENIZERS[name], decoders.ByteLevel()
        if nfc:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.train_from_iterator(self.documents[:3000:2], trainers.BpeTrainer(
            vocab_size=PIECES, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False))
        path = self.folder / (name + "_nfc" * nfc) / "tokenizer.json"
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


class TokenizerJsonTest(JsonTokenizers):
    def test_ids_are_pythons_with_the_pre_tokenizers_of_many_models(self):
        for name, nfc in [(name, False) for name in PRE_TOKENIZERS] + [("qwen", True), ("o200k", True)]:
            tokenizer, path = self.tokenizer(name, nfc)
            expected = [encoded.ids for encoded in tokenizer.encode_batch(self.documents)]
            found = self.ids_of(path)
            with self.subTest(name, nfc=nfc):
                self.assertEqual(len(expected), len(found))
                apart = [(text[:80], theirs, ours) for text, theirs, ours in zip(self.documents, expected, found)
                         if theirs != ours]
                self.assertEqual([], apart[:1])
            print(f"{name}{' NFC' * nfc}: {len(found)} documents, {sum(map(len, found))} tokens alike")

    def test_what_is_not_read_is_named(self):
        _, path = self.tokenizer("gpt2")
        whole = json.loads(path.read_text())
        for change, words in (
                ({"normalizer": {"type": "NFKC"}}, "a normalizer, NFKC"),
                ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}}, "a normalizer, Lowercase"),
                ({"pre_tokenizer": {"type": "Metaspace"}}, "the pre_tokenizer Metaspace"),
                ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, "add_prefix_space"),
                ({"pre_tokenizer": None}, "the pre_tokenizer none"),
                ({"model": {"type": "WordPiece", "vocab": {}}}, "the model WordPiece"),
                ({"model": {"type": "Unigram", "vocab": []}}, "the model Unigram"),
                ({"model": whole["model"] | {"byte_fallback": True}}, "byte_fallback"),
                ({"model": whole["model"] | {"merges": ["a"]}}, 'the merge "a"'),
                ({"model": whole["model"] | {"merges": [["\u0120", "nothere"]]}}, 'a merge with "nothere"'),
                ({"model": whole["model"] | {"vocab": {"a": 1}}}, "no piece for the byte 0x00"),
                ({"model": whole["model"] | {"vocab": whole["model"]["vocab"] | {"\u0120zz": 803333}}},
                 "has the id 803333, although there are"),
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
        big = whole["model"]["vocab"] | {"\u0120zz": 1 << 20}
        path.write_text(json.dumps(whole | {"model": whole["model"] | {"vocab": big}}))
        _, done = self.make_shards(path)
        self.assertEqual(78, done.returncode)
        self.assertIn("has the id 1048576, too much for a vocabulary", done.stderr)


if __name__ == "__main__":
    unittest.main()
