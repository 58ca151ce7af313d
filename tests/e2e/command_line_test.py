"""The commands of train_gpt: dispatch, help, and `inspect` on a run's files."""

import re
import unittest

from harness import SOURCE, RunTest, mpirun


class HelpTest(RunTest):
    def prints(self, *words, **settings):
        done = self.run_gpt(*words, **settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_lists_the_commands_before_the_settings(self):
        text = self.prints("--help")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for word in ("MATRIX_LR", "--matrix-lr", "0.025", "Model"):
            self.assertIn(word, text)
        for word in ("\n  train ", "\n  eval ", "\n  quantize ", "\n  sample ", "\n  inspect ", "\n  report ", "\n  watch ", "\n  completion ", "\n  help "):
            self.assertLess(0, text.find(word), word)
            self.assertLess(text.find(word), text.find("--matrix-lr"), word)
        for words in (["-h"], ["help"], ["help", "--help"], ["help", "help"]):
            self.assertEqual(self.prints(*words), text, words)

    def test_of_a_command(self):
        train = self.prints("train", "--help")
        self.assertNotIn("inspect", train)
        self.assertIn("--matrix-lr  MATRIX_LR", train)
        self.assertEqual(self.prints("help", "train"), train)
        self.assertEqual(self.prints("--seed", "1", "--help"), train)
        inspect = self.prints("inspect", "--help")
        self.assertIn("train_gpt inspect [--quantization [--artifact FILE]] [--weights raw|ema] MODEL", inspect)
        self.assertEqual(self.prints("help", "inspect"), inspect)

    def test_version(self):
        project = re.search(r"project\(train_gpt VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        version = self.prints("--version")
        for word in (f"train_gpt {project} commit ", "LibTorch 2.", "CUDA", "GPUs"):
            self.assertIn(word, version)
        gpus = re.search("^GPUs (.+)", version, re.MULTILINE)[1]
        kernels = "none" if gpus == "none" else "Hopper" if re.match("NVIDIA (H100|H200)", gpus) else "generic"
        self.assertRegex(version, rf"(?m)^Kernels {kernels}$")
        self.assertEqual(self.prints("train", "--version"), version)


class UsageTest(RunTest):
    def refuses(self, exit_code, line, *words):
        done = self.run_gpt(*words)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (exit_code, "", f"ERROR exit={exit_code} rank=0: {line}\n"))

    def test_an_unknown_command_suggests_the_nearest(self):
        hint = "train_gpt --help lists them"
        self.refuses(64, f"unknown command 'trian'; did you mean train? {hint}", "trian", "--seed", "1")
        self.refuses(64, f"unknown command 'inspec'; did you mean inspect? {hint}", "help", "inspec")

    def test_inspect_takes_one_model(self):
        for words, found in (([], "none"), (["a", "b"], "'a b'"), (["--all"], "'--all'")):
            self.refuses(64, f"train_gpt inspect: expected one MODEL, found {found}; see train_gpt inspect --help",
                         "inspect", *words)

    def test_inspect_fails_as_the_readers_do(self):
        self.refuses(66, "cannot open none.safetensors (No such file or directory)", "inspect",
                     "none.safetensors")
        (self.folder / "short.pt").write_bytes(b"PK\3\4")
        self.refuses(65, "short.pt: expected an archive of torch.save; too short", "inspect", "short.pt")


class RunsTest(RunTest):
    def test_train_is_the_default(self):
        losses = [[event["train_loss"] for event in self.train(*words, ITERATIONS=2) if event["event"] == "train"]
                  for words in ([], ["train"], ["train", "--seed", "1337"])]
        self.assertEqual(len(losses[0]), 2)
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        self.train("train", through=mpirun(2), ITERATIONS=1)

    def test_inspect_shows_what_a_run_wrote(self):
        self.train("--iterations", 1, output="seen")
        seen = self.out  # each call of the program replaces it
        texts = [self.inspect(seen / f"final_model.{suffix}") for suffix in ("safetensors", "pt")]
        for text, kind in zip(texts, ("safetensors", "torch.save")):
            self.assertRegex(text.splitlines()[0], rf"final_model\.\w+: {re.escape(kind)}$")
            self.assertRegex(text, r"\nqo_bank +F32 +\[8, 32, 32\] +8192 +32768 +-0\.\d+ +0\.\d+ +0\.\d+\n")
            self.assertRegex(text, r"\nall +\d+ +\d+ +\d+\n")
            self.assertIn("\n  NUM_LAYERS=4\n", text)
            self.assertNotIn("TIE_EMBEDDINGS", text)  # has its default
        tables = [text.split("\n", 1)[1].replace(".pt", ".safetensors") for text in texts]
        self.assertEqual(tables[0], tables[1])

    def inspect(self, path):
        done = self.run_gpt("inspect", path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


if __name__ == "__main__":
    unittest.main()
