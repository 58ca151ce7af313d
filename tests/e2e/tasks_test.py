"""eval --hellaswag and --lambada, compared with numpy and a plain tokenizer in this file.

The model's attention and MLP output zeros, so the logits depend on the last token only: 30·tanh(W·rms(embedding)/30).
"""

import json
import math
import random
import re
import unittest

import numpy as np
import sentencepiece
from safetensors.numpy import load_file, save_file

from harness import TEXT, TOKENIZER
from model_commands import ModelTest

TOLD = json.loads(TOKENIZER.with_name("gpt2_tokens.json").read_text())
PIECES, VOCAB, LENGTH = 701, 704, 128
PLAIN = dict(VOCAB_SIZE=VOCAB, NUM_LAYERS=2, MODEL_DIM=32, TIE_EMBEDDINGS=0, UNET_SKIPS=0, SMEAR_GATE=0,
             BIGRAM_VOCAB_SIZE=0, XSA_LAST_N=0, VE_ENABLED=0, VE_LAYERS="", LN_SCALE=0, LAYER_SCALES=0, TRAIN_SEQ_LEN=LENGTH,
             TTT_ENABLED=0, ARTIFACT="none", ITERATIONS=1, DATA_PATH="synthetic:zipf", TOKENIZER_PATH="")
WORD = re.compile(r"'(?:[sdmt]|ll|ve|re)| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


class Gpt2Reference:
    """The fixture's vocabulary: merges, the earliest first."""

    def __init__(self):
        pairs = [tuple(line.split(" ")) for line in TOLD["merge_list"].splitlines()[1:]]
        own = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [byte for byte in range(256) if byte not in own]
        self.spelled = {byte: chr(byte) for byte in own} | {byte: chr(256 + i) for i, byte in enumerate(others)}
        self.ids = {piece: i for i, piece in enumerate([*self.spelled.values(), *map("".join, pairs)])}
        self.rank = {pair: i for i, pair in enumerate(pairs)}

    def encode(self, text):
        ids = []
        for word in WORD.findall(text):
            parts = [self.spelled[byte] for byte in word.encode()]
            while True:
                pairs = [(self.rank.get(pair, math.inf), i) for i, pair in enumerate(zip(parts, parts[1:]))]
                if not pairs or min(pairs)[0] == math.inf:
                    break
                at = min(pairs)[1]
                parts[at:at + 2] = [parts[at] + parts[at + 1]]
            ids += [self.ids[part] for part in parts]
        return ids


def rms(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1.1920929e-07)


class TasksTest(ModelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.merges = cls.folder / "vocab.bpe"
        cls.merges.write_text(TOLD["merge_list"])
        cls.reference = Gpt2Reference()

    def model(self):
        """Returns the path of the model, with known embeddings and head; created once."""
        out, _ = self.trained("plain", **PLAIN)
        path = out / "final_model.safetensors"
        if not hasattr(type(self), "log_p"):
            weights = load_file(path)
            draw = np.random.default_rng(1)
            for name in ("qo_bank", "mlp_down_bank"):
                weights[name][:] = 0
            inputs = draw.normal(size=(VOCAB, 32))
            inputs[:, 0] = 3
            inputs = rms(rms(inputs))
            head = draw.normal(size=(VOCAB, 32)) * 0.6
            head[:, 0] = 0
            likely = {}  # for each token of some last words its successor
            for text in LAMBADA[::2]:
                ids = self.reference.encode(text)
                begin = len(self.reference.encode(text.rsplit(" ", 1)[0]))
                for x, y in zip(ids[begin - 1:], ids[begin:]):
                    likely.setdefault(x, y)
            for x, y in likely.items():
                head[y, 1:] += 0.8 * inputs[x, 1:]
            head[703, 0] = 8  # likely after every token, but not a piece
            weights["tok_emb.weight"][:], weights["lm_head.weight"][:] = inputs, head
            save_file(weights, path)
            logits = 30 * np.tanh(inputs @ head.T / 30)
            type(self).logits = logits
            type(self).log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        return path

    def lines_file(self, name, objects):
        path = self.folder / name
        path.write_text("".join(json.dumps(each) + "\n" for each in objects))
        return path

    def scores(self, *words, tokenizer=None, **settings):
        text = self.prints("eval", "--init-from", self.model(), "--tokenizer-path", tokenizer or self.merges, *words,
                           **settings)
        return [line for line in text.splitlines() if not line.startswith("ranks:")]

    def numbers(self, line):
        return {name: float(value) for name, value in (word.split(":") for word in line.split()[1:-1])}

    def sum_of(self, context, continuation):
        """Returns the log-probability of the continuation after the context."""
        ids = [*context, *continuation]
        return sum(self.log_p[x, y] for x, y in list(zip(ids, ids[1:]))[len(context) - 1:])

    def hellaswag(self, examples, encode, begin=()):
        """Returns the fractions of right choices: by the sum, per character, per byte, per token."""
        right = np.zeros(4)
        for example in examples:
            context = [*begin, *encode(example["ctx"])]
            values = []
            for ending in example["endings"]:
                ids = encode(" " + ending)
                total = self.sum_of(context, ids)
                values.append([total, *(total / n if n else -math.inf for n in
                                        (len(ending), len(ending.encode()), len(ids)))])
            right += np.argmax(values, axis=0) == int(example["label"])
        return dict(zip(("acc", "acc_norm", "acc_bytes", "acc_token"), right / len(examples)))

    def test_hellaswag_is_what_numpy_computes(self):
        self.model()
        path = self.lines_file("hellaswag.jsonl", HELLASWAG)
        # Settings of validation and test-time training, which contradict each other, are ignored.
        [line] = self.scores("--hellaswag", path, VAL_BATCH_SIZE=1, TTT_ENABLED=1)
        self.assertRegex(line, r"^hellaswag examples:300 acc:0\.\d{4} acc_norm:0\.\d{4} acc_bytes:0\.\d{4} acc_token:0\.\d{4} eval_time:\d+ms$")
        found = self.numbers(line)
        expected = self.hellaswag(HELLASWAG, self.reference.encode)
        self.assertEqual(len(set(expected.values())), 4, expected)
        for name, share in expected.items():
            self.assertAlmostEqual(found[name], share, delta=6e-5, msg=name)

    def test_lambada_is_what_numpy_computes(self):
        self.model()
        path = self.lines_file("lambada.jsonl", [{"text": text} for text in LAMBADA])
        [line] = self.scores("--lambada", path)
        self.assertRegex(line, r"^lambada examples:60 acc:0\.\d{4} perplexity:\d+\.\d{4} eval_time:\d+ms$")
        hits, hits_of_all, total = 0, 0, 0
        for text in LAMBADA:
            context, word = text.rsplit(" ", 1)
            context, ids = self.reference.encode(context), self.reference.encode(" " + word)
            total += self.sum_of(context, ids)
            before = [context[-1], *ids]
            hits += all(self.logits[x, :PIECES].argmax() == y for x, y in zip(before, ids))
            hits_of_all += all(self.logits[x].argmax() == y for x, y in zip(before, ids))
        found = self.numbers(line)
        self.assertTrue(hits_of_all < hits and 9 < hits < 50, (hits, hits_of_all))
        self.assertAlmostEqual(found["acc"], hits / 60, delta=6e-5)
        self.assertAlmostEqual(found["perplexity"] / math.exp(-total / 60), 1, delta=1e-4)

    def test_ranks_and_both_files_at_once_give_the_same_lines(self):
        self.model()
        words = ("--hellaswag", self.lines_file("h.jsonl", HELLASWAG[:7]),
                 "--lambada", self.lines_file("l.jsonl", [{"text": text} for text in LAMBADA[:7]]))
        timeless = [[line.split(" eval_time")[0] for line in self.scores(*words, ranks=ranks)]
                    for ranks in (1, 3)]
        self.assertEqual(len(timeless[0]), 2)
        self.assertEqual(timeless[0], timeless[1])

    def test_a_sentencepiece_model_begins_with_its_bos(self):
        self.model()
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(TOKENIZER))
        guard = pieces.encode("a")
        [line] = self.scores("--hellaswag", self.lines_file("s.jsonl", HELLASWAG), tokenizer=TOKENIZER)
        expected = self.hellaswag(
            HELLASWAG, lambda text: pieces.encode("a" + text)[len(guard):] if text.startswith(" ") else pieces.encode(text),
            begin=[pieces.bos_id()])
        for name, share in expected.items():
            self.assertAlmostEqual(self.numbers(line)[name], share, delta=6e-5, msg=name)

    def test_of_equal_endings_the_first_is_chosen(self):
        self.model()
        same = [{"ctx": "The licence", "endings": ["is here."] * 4, "label": label} for label in ("0", 0, 1, 3)]
        [line] = self.scores("--hellaswag", self.lines_file("same.jsonl", same))
        self.assertEqual(set(list(self.numbers(line).values())[1:]), {0.5})

    def test_an_empty_ending_is_its_space_and_never_the_best_by_length(self):
        self.model()
        empty = [{"ctx": "The licence", "endings": ["", "is a licence of this work, " * 2, "of works " * 6, "grants " * 9],
                  "label": 0}]
        [line] = self.scores("--hellaswag", self.lines_file("empty.jsonl", empty))
        found = self.numbers(line)
        self.assertEqual((found["acc"], found["acc_norm"], found["acc_bytes"]), (1, 0, 0))

    def test_rows_that_are_too_long_lose_the_beginning_and_a_line_says_so(self):
        self.model()
        long = [dict(example, ctx="word " * 130 + example["ctx"]) for example in HELLASWAG[:30]]
        said, line = self.scores("--hellaswag", self.lines_file("long.jsonl", long))
        self.assertRegex(said, r"long\.jsonl: 120 rows are longer than EVAL_SEQ_LEN=128; their contexts lost the beginning$")
        expected = self.hellaswag(HELLASWAG[:30], self.reference.encode)
        for name, share in expected.items():
            self.assertAlmostEqual(self.numbers(line)[name], share, delta=6e-5, msg=name)

    def test_files_that_are_refused(self):
        self.model()
        good = HELLASWAG[0]
        cases = [
            ("hellaswag", [good, dict(good, label=4)], 'found "label" 4'),
            ("hellaswag", [good, dict(good, label="x\n")], 'found "label" "x\\n"'),
            ("hellaswag", [good, dict(good, endings=["a"] * 3)], 'found 3 "endings"'),
            ("hellaswag", [good, dict(good, endings=[1, 2, 3, 4])], "found an ending that is number"),
            ("hellaswag", [good, {"ctx": "a"}], 'found no "endings"'),
            ("hellaswag", [good, dict(good, endings=["word " * 200] * 4)], "expected at most EVAL_SEQ_LEN=128 tokens to score"),
            ("lambada", [{"text": "two words"}, [1]], "found JSON array"),
            ("lambada", [{"text": "two words"}, {"text": "one"}], "found a text without a space"),
            ("lambada", [{"text": "two words"}, {"text": "ends "}], "found a text that ends with a space"),
        ]
        for task, objects, part in cases:
            path = self.lines_file("bad.jsonl", objects)
            done = self.command("eval", "--init-from", self.model(), "--tokenizer-path", self.merges, f"--{task}", path)
            self.assertEqual(done.returncode, 65, done.stderr)
            self.assertRegex(done.stderr, rf"(?m)^ERROR exit=65 rank=0: {re.escape(str(path))} line 2: .*{re.escape(part)}")
        begin = ("eval", "--init-from", self.model(), "--lambada")
        path.write_bytes(b'{"text": "two words"}\n\n{"text": "two \xff"}\n')
        self.refuses(65, f"{path} line 3: expected a JSON object with a string \"text\" of several words, found no JSON",
                     *begin, path, "--tokenizer-path", self.merges)
        path.write_text("\n")
        self.refuses(65, f"{path} has no examples", *begin, path, "--tokenizer-path", self.merges)
        self.refuses(66, "cannot open", *begin, self.folder / "missing", "--tokenizer-path", self.merges)
        self.refuses(64, "train_gpt eval needs a tokenizer", *begin, path)
        self.refuses(64, "score their files alone", *begin, path, "--audit")


def make_texts():
    draw = random.Random(4)
    words = [word for word in (TEXT / "GPL-2").read_text().split() if word.isalpha()]
    words += 9 * ["don't", "1999", "x_y", "naïve", "日本語", "été", "100%", "licence"]

    def text(count):
        return " ".join(draw.choice(words) for _ in range(count))

    hellaswag = [{"ind": i, "activity_label": "Reading", "ctx_a": "unused", "ctx": text(draw.randint(1, 9)),
                  "endings": [text(draw.randint(1, 6)) + draw.choice([".", "", "!"]) for _ in range(4)],
                  "label": draw.choice([i % 4, str(i % 4)])} for i in range(300)]
    return hellaswag, [text(draw.randint(2, 12)) for _ in range(60)]


HELLASWAG, LAMBADA = make_texts()

if __name__ == "__main__":
    unittest.main()
