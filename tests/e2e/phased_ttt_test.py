"""PHASED_TTT_ENABLED and eval --adapt lora: documents that teach adapters, and then the weights, after they were scored."""

import array
import collections
import re
import signal
import unittest

from gptq_test import QUANTIZED
from harness import SMALL, mpirun, read_until
from model_commands_test import UNSET, ModelTest

USAGE, STOPPED, CONFIG = 64, 75, 78

# Batches of four documents, some of several chunks and rows; two phases.
PHASED = dict(PHASED_TTT_ENABLED=1, PHASED_TTT_PREFIX_DOCS=8, PHASED_TTT_NUM_PHASES=2, TTT_BATCH_SIZE=4,
              TTT_CHUNK_SIZE=64, TTT_EVAL_SEQ_LEN=256, TTT_LORA_RANK=2, TTT_LORA_LR=0.003, VAL_TOKENS=8192,
              EVAL_SEQ_LEN=32, GLOBAL_TTT_CHUNK_TOKENS=512, GLOBAL_TTT_BATCH_SEQS=4, GLOBAL_TTT_LR=0.01)


def score_of(text, name):
    """→ val_loss of the line of that name."""
    return float(re.search(rf"(?m)^{name} val_loss:(\d+\.\d{{8}}) val_bpb:\d+\.\d{{8}} eval_time:\d+ms$", text)[1])


def frequent_token(shard, count):
    """→ the token of which the first 8,192 have the nearest to so many: the licences are longer than these."""
    tokens = array.array("H", shard.read_bytes()[1024:][:2 * 8192])
    counts = collections.Counter(tokens)
    return min(counts, key=lambda token: (abs(counts[token] - count), token))


class PhasedTttTest(ModelTest):
    def trained(self, name, **settings):
        documents = dict(BOS_ID=frequent_token(self.shards / "fineweb_val_000000.bin", 40))
        return super().trained(name, **{**QUANTIZED, **PHASED, **documents, "EVAL_STRIDE": 0, "TTT_ENABLED": 0,
                                        **settings})

    def test_a_run_ends_with_it_and_eval_repeats_it(self):
        out, lines = self.trained("run")
        text = "\n".join(lines)
        plan = re.search(r"ttt_phased: total_docs:(\d+) prefix_docs:8 suffix_docs:(\d+) num_phases:2 boundaries:\[4, 8\]", text)
        self.assertEqual(int(plan[1]), int(plan[2]) + 8)
        self.assertRegex(text, r"(?m)^ttp: b\d+/\d+ bl:\d\.\d{4} bb:\d\.\d{4} rl:\d\.\d{4} rb:\d\.\d{4} dl:\d+-\d+ gd:0$")
        for line in (r"ttpp: phase:1/2 pd:\d+ gd:4 t:\d+\.\ds", r"tttg: c\d+/\d+ lr:0\.\d{6} t:\d+\.\ds",
                     r"ttpr: phase:2/2 t:\d+\.\ds"):
            self.assertRegex(text, rf"(?m)^{line}$")
        adapted = score_of(text, "quantized_ttt_phased")
        self.assertLess(adapted, score_of(text, "diagnostic quantized"))
        again = self.prints("eval", "--init-from", out / "final_model.int6.ptz")
        self.assertEqual(score_of(again, "quantized_ttt_phased"), adapted)

    def test_eval_stops_at_a_signal_and_goes_on(self):
        out, _ = self.trained("run")
        model = out / "final_model.safetensors"
        whole = score_of(self.prints("eval", "--init-from", model), "final_ttt_phased")
        process = self.start_gpt("eval", "--init-from", model, **{**UNSET, "DEVICE": "cpu"})
        read_until(process, "ttp: ")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, STOPPED, errors)
        state = out / "final_model.safetensors.ttt-rank-0.safetensors"
        self.assertIn(f"state saved in {state}", errors)
        self.assertTrue(state.exists())
        self.refuses(CONFIG, "ttt-rank-0.safetensors", "eval", "--init-from", model, "--ttt-lora-rank", 3)
        self.assertEqual(score_of(self.prints("eval", "--init-from", model), "final_ttt_phased"), whole)
        self.assertFalse(state.exists())

    def test_ranks_share_the_documents(self):
        out, _ = self.trained("run")
        adapt = ("eval", "--init-from", out / "final_model.safetensors", "--adapt", "lora", "--phased-ttt-prefix-docs", 8)
        alone, shared = (self.prints(*adapt, through=through) for through in ((), mpirun(2)))
        before = score_of(alone, "final_documents")
        self.assertAlmostEqual(score_of(shared, "final_documents"), before, delta=1e-6)
        # Which batch's A a batch begins with, and so the score, depends on who claimed it.
        for text in (alone, shared):
            self.assertLess(score_of(text, "final_ttt_phased"), before)

    def test_adapt_shows_what_adaptation_brings_to_any_model(self):
        out = self.train_speedrun()
        text = self.prints("eval", "--init-from", out, "--adapt", "lora", *self.flags())
        before, after = score_of(text, "final_documents"), score_of(text, "final_ttt_phased")
        self.assertLess(after, before)
        # What learns has its lines, and the score beside it none.
        self.assertEqual(re.findall(r"prefix_docs:(\d+) ", text), ["0"])
        self.assertGreater(text.index("ttp: "), text.index("final_documents"))
        self.assertNotIn("ttt_concurrent_batches", text)
        # With batches in flight.
        text = self.prints("eval", "--init-from", out, "--adapt", "lora", *self.flags(), "--ttt-concurrent-batches", 3)
        self.assertEqual(text.count("\nttt_concurrent_batches:3\n"), 1)
        self.assertEqual(score_of(text, "final_documents"), before)
        self.assertLess(score_of(text, "final_ttt_phased"), before)
        self.refuses(USAGE, "expected an integer in [1, 16]", "eval", "--init-from", out, "--ttt-concurrent-batches", 0)
        # Without a rate nothing learns.
        text = self.prints("eval", "--init-from", out, "--adapt", "lora", *self.flags(), "--ttt-lora-lr", 0)
        self.assertEqual(score_of(text, "final_documents"), before)
        self.assertAlmostEqual(score_of(text, "final_ttt_phased"), before, delta=1e-6)
        self.refuses(USAGE, "expected lora", "eval", "--init-from", out, "--adapt", "dora")

    def train_speedrun(self):
        self.train(output="speedrun", **dict(
            SMALL, RECIPE="speedrun", TIE_EMBEDDINGS=0, BIGRAM_VOCAB_SIZE=0, VE_ENABLED=0, SMEAR_GATE=0, XSA_LAST_N=0,
            NUM_KV_HEADS=4, VAL_TOKENS=4096))
        return self.out

    def flags(self):
        return ["--ttt-chunk-size", 32, "--ttt-eval-seq-len", 64, "--ttt-batch-size", 8, "--ttt-lora-rank", 4,
                "--ttt-lora-lr", 0.01, "--val-tokens", 4096]


if __name__ == "__main__":
    unittest.main()
