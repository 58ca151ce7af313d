"""PHASED_TTT_ENABLED and eval --adapt lora: documents train adapters, and later the weights, after they were scored."""

import json
import os
import re
import shutil
import signal
import time
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from gptq_test import QUANTIZED
from harness import SMALL, common_folder, read_until
from model_commands import PHASED, UNSET, ModelTest, frequent_token, score_of

USAGE, CANNOT_CREATE, STOPPED, CONFIG = 64, 73, 75, 78

# Many chunks, so that a batch takes long.
SLOW = ("--ttt-chunk-size", 16, "--ttt-eval-seq-len", 64)


class PhasedTttTest(ModelTest):
    def trained(self, name, **settings):
        documents = dict(BOS_ID=frequent_token(self.shards / "fineweb_val_000000.bin", 20))
        return super().trained(name, **{**QUANTIZED, "MODEL_DIM": 64, **PHASED, **documents, "EVAL_STRIDE": 0,
                                        "TTT_ENABLED": 0, "COMPRESSOR": "lzma", **settings})

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

    def test_eval_stops_within_a_batch_or_is_killed_and_goes_on(self):
        out, _ = self.trained("run")
        model = out / "final_model.safetensors"
        slow = ("eval", "--init-from", model, *SLOW)
        whole = score_of(self.prints(*slow), "final_ttt_phased")
        states = lambda: sorted(path.name for path in out.glob("*.ttt-rank-*"))
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            process = self.start_gpt(*slow, **{**UNSET, "DEVICE": "cpu"})
            # SIGTERM arrives before the first batch is scored.
            read_until(process, "ttt_state: " if number == signal.SIGTERM else "ttp: ")
            began = time.monotonic()
            process.send_signal(number)
            _, errors = process.communicate(timeout=100)
            self.assertLess(time.monotonic() - began, 5)
            if number == signal.SIGKILL:
                self.assertEqual(process.returncode, -number)
                self.assertIn("final_model.safetensors.ttt-rank-0.lock", states())
                continue
            self.assertEqual(process.returncode, STOPPED, errors)
            state = next(out.glob("*.ttt-rank-0.phase-*.safetensors"))
            self.assertIn(f"state saved in {state}", errors)
            self.assertEqual(states(), [state.name])
        self.refuses(CONFIG, "LOGIT_SOFTCAP=30.0, now 20.0", *slow, "--logit-softcap", 20)
        self.refuses(CONFIG, "COMPUTE_DTYPE=fp32, now bf16", *slow, "--compute-dtype", "bf16")
        self.refuses(CONFIG, "TTT_LORA_RANK=2, now 3", *slow, "--ttt-lora-rank", 3)
        self.assertEqual(score_of(self.prints(*slow), "final_ttt_phased"), whole)
        self.assertEqual(states(), [])

    def test_the_place_of_the_state_is_tried_before_the_work_and_can_be_named(self):
        out, _ = self.trained("run")
        model = out / "final_model.safetensors"
        elsewhere = self.folder / "not" / "yet"
        process = self.start_gpt("eval", "--init-from", model, *SLOW, "--state-dir", elsewhere, "--val-tokens", 2048,
                                 **{**UNSET, "DEVICE": "cpu"})
        line = next(line for line in process.stdout if line.startswith("ttt_state: "))
        self.assertIn(f"ttt_state: {elsewhere}/final_model.safetensors.ttt-rank-0.phase-K.safetensors bytes:", line)
        # The state of another evaluation is not overwritten, and nothing is scored first.
        second = self.command("eval", "--init-from", model, "--state-dir", elsewhere)
        self.assertEqual((second.returncode, "val_loss" in second.stdout), (CANNOT_CREATE, False), second.stderr)
        self.assertIn(f"found it locked by pid {process.pid} on ", second.stderr)
        _, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(list(elsewhere.iterdir()), [])
        self.refuses(CANNOT_CREATE, "final_model.safetensors: cannot be created", "eval", "--init-from", model,
                     "--state-dir", model)
        self.refuses(USAGE, "--state-dir is for phased", "eval", "--init-from", model, "--state-dir", elsewhere,
                     "--phased-ttt-enabled", 0)

    @unittest.skipIf(os.geteuid() == 0 and shutil.which("setpriv") is None, "setpriv is not installed")
    def test_a_model_in_a_folder_that_cannot_be_written_needs_another_place(self):
        out, _ = self.trained("run")
        nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        model, place = out / "final_model.safetensors", self.folder / "place"
        place.mkdir()
        place.chmod(0o777)
        readable = [common_folder(), self.folder]
        try:
            for folder in readable:
                folder.chmod(0o755)
            out.chmod(0o555)
            done = self.command("eval", "--init-from", model, through=nobody)
            self.assertEqual((done.returncode, "val_loss" in done.stdout), (CANNOT_CREATE, False), done.stderr)
            self.assertIn("final_model.safetensors.ttt-rank-0.lock: cannot be created (Permission denied)", done.stderr)
            done = self.command("eval", "--init-from", model, "--state-dir", place, "--val-tokens", 2048, through=nobody)
            self.assertEqual(done.returncode, 0, done.stderr)
        finally:
            out.chmod(0o755)
            for folder in readable:
                folder.chmod(0o700)

    def test_ranks_share_the_documents(self):
        out, _ = self.trained("run")
        adapt = ("eval", "--init-from", out / "final_model.safetensors", "--adapt", "lora", "--phased-ttt-prefix-docs", 8)
        alone, shared = (self.prints(*adapt, ranks=ranks) for ranks in (1, 2))
        before = score_of(alone, "final_documents")
        self.assertAlmostEqual(score_of(shared, "final_documents"), before, delta=1e-6)
        # The initial A of a batch, and so its score, depends on which rank claimed which batch.
        for text in (alone, shared):
            self.assertLess(score_of(text, "final_ttt_phased"), before)

    def test_adapt_shows_what_adaptation_brings_to_any_model(self):
        out = self.train_speedrun()
        text = self.prints("eval", "--init-from", out, "--adapt", "lora", *self.flags())
        before, after = score_of(text, "final_documents"), score_of(text, "final_ttt_phased")
        self.assertLess(after, before)
        # Only evaluation with training has these lines.
        self.assertEqual(re.findall(r"prefix_docs:(\d+) ", text), ["0"])
        self.assertGreater(text.index("ttp: "), text.index("final_documents"))
        self.assertNotIn("ttt_concurrent_batches", text)
        # With several batches in flight.
        text = self.prints("eval", "--init-from", out, "--adapt", "lora", *self.flags(), "--ttt-concurrent-batches", 3)
        self.assertEqual(text.count("\nttt_concurrent_batches:3\n"), 1)
        self.assertEqual(score_of(text, "final_documents"), before)
        self.assertLess(score_of(text, "final_ttt_phased"), before)
        self.refuses(USAGE, "expected an integer in [1, 16]", "eval", "--init-from", out, "--ttt-concurrent-batches", 0)
        # With a learning rate of 0 nothing is learned.
        text = self.prints("eval", "--init-from", out, "--adapt", "lora", *self.flags(), "--ttt-lora-lr", 0)
        self.assertEqual(score_of(text, "final_documents"), before)
        self.assertAlmostEqual(score_of(text, "final_ttt_phased"), before, delta=1e-6)
        self.refuses(USAGE, "expected lora", "eval", "--init-from", out, "--adapt", "dora")

    def test_documents_have_the_context_of_training(self):
        # One document as long as a training row, for which RoPE's base is larger.
        rows = dict(TRAIN_SEQ_LEN=1536, EVAL_SEQ_LEN=0, TRAIN_BATCH_TOKENS=3072, VAL_BATCH_SIZE=3072, VAL_TOKENS=1536,
                    ITERATIONS=1, VAL_LOSS_EVERY=0, ROPE_BASE=100)
        self.train(output="long", BOS_ID=0, **rows)
        long = self.stirred()
        unadapted = ("--adapt", "lora", "--ttt-chunk-size", 256, "--ttt-lora-rank", 1, "--ttt-lora-lr", 0)
        text = self.prints("eval", "--init-from", long, *unadapted)
        whole = self.validation_of(text)
        for name in ("final_documents", "final_ttt_phased"):
            self.assertAlmostEqual(score_of(text, name), whole, delta=1e-6)
        shorter = self.prints("eval", "--init-from", long, *unadapted, "--ttt-eval-seq-len", 512)
        self.assertNotAlmostEqual(score_of(shorter, "final_documents"), whole, delta=1e-4)

    def test_long_rows_have_the_context_of_training_on_any_number_of_ranks(self):
        for name, chosen in (("limit", dict(SEGMENT_LIMIT=0)), ("attention", dict(DOCUMENT_ATTENTION=0))):
            with self.subTest(**chosen):
                self.train(output=name, LOADER_ORDER="documents", TRAIN_SEQ_LEN=512, TRAIN_BATCH_TOKENS=3072,
                           VAL_BATCH_SIZE=8192, VAL_TOKENS=1536, ITERATIONS=1, ROPE_BASE=100, **chosen)
                model = self.stirred()
                self.assertEqual(json.loads((model / "config.json").read_text())["settings"]["ROPE_LONGEST"], 1536)
                trained, on_two, by_row = (
                    self.validation_of(self.prints("eval", "--init-from", model, *flags, ranks=ranks))
                    for flags, ranks in (((), 1), ((), 2), (("--rope-longest", 512), 1)))
                self.assertAlmostEqual(on_two, trained, delta=1e-5)
                self.assertNotAlmostEqual(by_row, trained, delta=1e-4)

    def stirred(self):
        """Returns the last run's folder with noise added to its weights, so that attention matters."""
        path, draw = self.out / "final_model.safetensors", np.random.default_rng(1)
        noisy = {name: np.asarray(value + 0.3 * draw.standard_normal(value.shape), value.dtype)
                 for name, value in load_file(path).items()}
        save_file(noisy, path)
        return self.out

    def validation_of(self, text):
        return float(re.search(r"(?m)^final_validation_exact val_loss:(\S+)", text)[1])

    def train_speedrun(self):
        self.train(output="speedrun", **dict(
            SMALL, RECIPE="speedrun", TIE_EMBEDDINGS=0, BIGRAM_VOCAB_SIZE=0, VE_ENABLED=0, SMEAR_GATE=0, XSA_LAST_N=0,
            NUM_KV_HEADS=4, VAL_TOKENS=2048))
        return self.out

    def flags(self):
        return ["--ttt-chunk-size", 32, "--ttt-eval-seq-len", 64, "--ttt-batch-size", 8, "--ttt-lora-rank", 4,
                "--ttt-lora-lr", 0.01, "--val-tokens", 2048]


if __name__ == "__main__":
    unittest.main()
