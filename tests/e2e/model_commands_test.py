"""The commands that show a trained model: sample, and inspect on its artifact; and the completion of all commands."""

import os
import pty
import subprocess
import unittest

from harness import SMALL, TOKENIZER
from model_commands import UNFIT, UNSET, ModelTest


class SampleTest(ModelTest):
    def sample(self, *words, model="final_model.int6.ptz", **settings):
        out, _ = self.trained("int6")
        return self.prints("sample", "--init-from", out / model, "--tokens", 40, *words, **settings)

    def test_prints_prompt_and_continuation_alone(self):
        text = self.sample("--prompt", "The licence")
        self.assertTrue(text.startswith("The licence"))
        self.assertGreater(len(text), 40)
        self.assertTrue(text.endswith("\n"))
        self.assertRegex(self.errors, r"^40 tokens in \d+\.\d\d s: \d+\.\d tokens/s\n$")

    def test_a_seed_repeats(self):
        texts = [self.sample("--prompt", "The", "--seed", seed, "--temperature", 1.5) for seed in (1, 1, 2)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def test_samples_are_those_of_the_seeds_that_follow(self):
        words = ["--prompt", "The", "--temperature", 1.5]
        alone = [self.sample(*words, "--seed", seed) for seed in (5, 6, 7)]
        self.assertEqual(self.sample(*words, "--seed", 5, "--samples", 3), "---\n".join(alone))
        self.assertRegex(self.errors, r"^120 tokens in ")

    def test_ends_before_the_text_of_stop(self):
        words = ["--prompt", "The e", "--temperature", 1.5]
        whole = self.sample(*words).removeprefix("The e")
        stop = whole[12:15]
        before = whole[:whole.index(stop)]
        self.assertEqual(self.sample(*words, "--stop", stop), f"The e{before}\n")
        self.assertLess(int(self.errors.split()[0]), 40)
        self.assertEqual(self.sample(*words, "--stop", "no such text"), f"The e{whole}")

    def test_ends_with_the_document(self):
        # A run on documents of a few words each, so that BOS is sampled soon.
        text = self.folder / "short.txt"
        text.write_text("You may copy.\n\n" * 2000)
        settings = dict(SMALL, DATA_PATH=text, LOADER_ORDER="stream", ITERATIONS=30, VAL_LOSS_EVERY=0, EMA_ENABLED=0,
                        SWA_ENABLED=0, WARMDOWN_ITERS=0)
        self.train(output="short", **settings)
        words = ["sample", "--init-from", self.out, "--prompt", "You may", "--tokens", 60, "--temperature", 0]
        self.assertGreater(self.prints(*words).count("You may copy."), 1)
        self.assertEqual(self.prints(*words, "--stop-at-document-end", 1), "You may copy.\n")
        self.assertLess(int(self.errors.splitlines()[-1].split()[0]), 20)

    def test_the_cache_changes_nothing(self):
        # Longer than the context: the oldest half is dropped.
        texts = {self.sample("--prompt", "You may", "--temperature", 0, "--train-seq-len", 16, "--kv-cache", cache)
                 for cache in (0, 1)}
        self.assertEqual(len(texts), 1)
        top = self.sample("--prompt", "You may", "--top-k", 1, "--train-seq-len", 16)
        self.assertEqual({top}, texts)

    def test_windows_and_segments_hide_the_same_with_and_without_the_cache(self):
        words = ["--prompt", "You may", "--temperature", 1.5]
        whole = self.sample(*words)
        for hide in (["--attention-window", "3,1"], ["--document-attention", 1, "--segment-limit", 3]):
            texts = {self.sample(*words, *hide, "--kv-cache", cache) for cache in (0, 1)}
            self.assertEqual(len(texts), 1, hide)
            self.assertNotIn(whole, texts, hide)

    def test_characters_outside_the_vocabulary(self):
        # The fixture's tokenizer has pieces for the licence's letters and byte pieces for all others.
        prompt = "Zwölf ☃ 日本語 👩‍🚀"
        self.assertTrue(self.sample("--prompt", prompt).startswith(prompt))
        # This tokenizer has no byte pieces.
        unknown = TOKENIZER.with_name("data_odd.model")
        out, _ = self.trained("int6")
        self.refuses(64, 'characters that the tokenizer does not know (expected text of its pieces, found an unknown '
                     'one after "The ")', "sample", "--init-from", out / "final_model.pt", "--prompt", "The ☃", "--tokenizer-path", unknown)

    def test_a_prompt_that_is_no_utf_8(self):
        out, _ = self.trained("int6")
        for prompt, found in ((b"The \xff", "0xff at 4"), (b"\xe6\x97", "0xe6 at 0"), (b"a\xed\xa0\x80", "0xed at 1")):
            self.refuses(64, f"--prompt is no UTF-8 text (expected UTF-8, found byte {found})", "sample", "--init-from",
                         out / "final_model.pt", "--prompt", os.fsdecode(prompt))

    def test_a_terminal_shows_control_characters_which_a_pipe_gets_as_they_are(self):
        out, _ = self.trained("int6")
        prompt = "The \x1b[2J\u202elicence\n\tby"
        words = ["sample", "--init-from", out / "final_model.pt", "--tokens", 4, "--prompt", prompt]
        self.assertTrue(self.prints(*words).startswith(prompt))
        terminal, output = pty.openpty()
        with self.start_gpt(*words, stdout=output, **{**UNSET, "DEVICE": "cpu"}) as process:
            os.close(output)
            errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, errors)
        text = os.read(terminal, 4096).decode().replace("\r\n", "\n")  # the terminal's line ends
        os.close(terminal)
        self.assertTrue(text.startswith("The \\x1b[2J\\u202elicence\n\tby"), text)
        self.assertNotIn("\x1b", text)

    def test_settings_of_training_and_validation_may_contradict(self):
        self.assertEqual(self.sample("--prompt", "The", *UNFIT), self.sample("--prompt", "The"))

    def test_of_any_file(self):
        for model in ("final_model.safetensors", "final_model.pt"):
            self.assertTrue(self.sample("--prompt", "", model=model))

    def test_refuses(self):
        out, _ = self.trained("int6")
        sample = ("sample", "--init-from", out / "final_model.pt")
        self.refuses(64, "expected --prompt TEXT", *sample)
        self.refuses(64, "TEMPERATURE='-1' (--temperature): expected a number of at least 0", *sample, "--prompt", "a",
                     "--temperature", "-1")
        self.refuses(64, "needs a tokenizer", *sample, "--prompt", "a", "--tokenizer-path=")
        self.refuses(66, "none.model", *sample, "--prompt", "a", "--tokenizer-path", "none.model")
        self.refuses(64, "did you mean --top-k?", *sample, "--prompt", "a", "--topk", "3")
        self.refuses(64, "runs in one process", *sample, "--prompt", "a", RANK=0, WORLD_SIZE=2, LOCAL_RANK=0,
                     MASTER_ADDR="127.0.0.1")


class InspectTest(ModelTest):
    def test_an_artifact_is_shown_as_it_is_stored(self):
        out, _ = self.trained("int6")
        text = self.prints("inspect", out / "final_model.int6.ptz")
        self.assertIn("final_model.int6.ptz: artifact, int6 (.xz)\n", text)
        self.assertRegex(text, r"\nblocks\.0\.attn\.c_q\.weight +F16 +\[32, 32\] ")
        self.assertIn("\n  NUM_LAYERS=2\n", text)

    def test_what_quantisation_would_cost(self):
        out, _ = self.trained("int6")
        text = self.prints("inspect", "--quantization", out / "final_model.safetensors")
        self.assertRegex(text, r"\nqo_bank\[3\] +\[32, 32\] +#*\+? +\d+\.\d\d +\d\.\d{3}\n")
        self.refuses(64, "found an artifact", "inspect", "--quantization", out / "final_model.int6.ptz")


class CompletionTest(ModelTest):
    def setUp(self):
        self.script = self.prints("completion")

    def complete(self, *words):
        done = subprocess.run(
            ["bash", "-c", self.script + '\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _train_gpt; echo "${COMPREPLY[@]}"',
             "bash", "train_gpt", *words], capture_output=True, text=True, check=True, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_commands_flags_and_values(self):
        self.assertEqual(self.complete("in"), ["inspect"])
        self.assertEqual(self.complete("help", "qu"), ["quantize"])
        self.assertEqual(self.complete("--matrix-l"), ["--matrix-lr"])
        self.assertEqual(self.complete("sample", "--temp"), ["--temperature"])
        self.assertEqual(self.complete("train", "--temp"), [])
        self.assertEqual(self.complete("--device", ""), ["auto", "cuda", "cpu"])
        self.assertEqual(self.complete("eval", "--audit", ""), ["0", "1", "true", "false"])
        self.assertEqual(self.complete("--seed", ""), [])
        (self.folder / "a_model.pt").touch()
        self.assertEqual(self.complete("eval", "--init-from", "a_mo"), ["a_model.pt"])
        self.assertEqual(self.complete("sample", "--prompt", "a_mo"), [], "a text that is no path")


if __name__ == "__main__":
    unittest.main()
