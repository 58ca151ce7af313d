"""scripts/quickstart.sh on a small text: what it says of a model that was trained too little, and how that is trained on."""

import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import BUILD, SMALL, SOURCE, TEXT, TOKENIZER, RunTest, read_events

# A model of seconds, and without what the script itself chooses.
FLAGS = [word for name, value in SMALL.items() if name not in ("ITERATIONS", "MAX_WALLCLOCK_SECONDS", "VAL_LOSS_EVERY", "ARTIFACT", "GRAD_ACCUM_STEPS")
         for word in (f"--{name.lower().replace('_', '-')}", str(value))]


class QuickstartTest(RunTest):
    def test_a_model_that_loses_to_the_bigram_is_told_so_and_the_printed_command_trains_on(self):
        tree = self.folder / "tree"
        data = tree / "data" / "quickstart"
        (data / "text").mkdir(parents=True)
        for name in ("scripts", "configs"):
            shutil.copytree(SOURCE / name, tree / name)
        (tree / "build").symlink_to(BUILD)
        shutil.copy(TOKENIZER, data / "tokenizer.model")
        words = (TEXT / "GPL-3").read_text().split("\n\n")
        for i in range(40):  # every 20th is for validation
            (data / "text" / f"{i:02}.txt").write_text("\n\n".join(words[i::40]))
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "nvidia-smi").write_text("#!/bin/sh\nexit 1\n")  # no GPU, whatever there is
        (tools / "nvidia-smi").chmod(0o755)

        def quickstart(*flags, **settings):
            return self.run_gpt(*flags, *FLAGS, program=[tree / "scripts" / "quickstart.sh"], SETUP=0,
                                PATH=f"{tools}:{os.environ['PATH']}", **{name: None for name in self.small},
                                DATA_PATH=None, TOKENIZER_PATH=None, OUTPUT_DIR=None, **settings)

        done = quickstart("--iterations", 2, RUN_ID="short")
        self.assertEqual(done.returncode, 0, done.stderr)
        bigram = float(re.search(r"^baseline token_bigram val_bpb:([\d.]+)$", done.stdout, re.M)[1])
        self.assertGreater(float(re.search(r"^this model val_bpb:([\d.]+)$", done.stdout, re.M)[1]), bigram)
        command = re.search(r"^It needs more training: the bigram, .*\n  scripts/quickstart\.sh (.*)$", done.stdout, re.M)
        first = [event["train_loss"] for event in read_events(tree / "logs" / "short") if event["event"] == "train"][0]
        # It takes the preset's steps in no more than an hour, and the learning rate falls by steps.
        done = quickstart(*command[1].split(), "--max-wallclock-seconds", 1, RUN_ID="longer")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("max_wallclock_seconds:1.000", done.stdout)
        steps = [event for event in read_events(tree / "logs" / "longer") if event["event"] == "train"]
        self.assertLess(steps[0]["train_loss"], first)
        self.assertEqual({step["lr_scale"] for step in steps[:490]}, {1})


if __name__ == "__main__":
    unittest.main()
