"""Common code of the tests of commands that use a trained model."""

import array
import collections
import re

from harness import SMALL, TWO_LAYERS, RunTest, common_folder

# Settings for final scores: an artifact, two strides of sliding windows and test-time training.
SCORED = dict(ARTIFACT="int6", EVAL_STRIDE=16, TTT_ENABLED=1, TTT_CHUNK_TOKENS=512, TTT_EPOCHS=1,
              TRAIN_SEQ_LEN=128, TRAIN_BATCH_TOKENS=2048, VAL_TOKENS=1024, VAL_BATCH_SIZE=1024)
# Batches of four documents, some of several chunks and rows; two phases.
PHASED = dict(PHASED_TTT_ENABLED=1, PHASED_TTT_PREFIX_DOCS=8, PHASED_TTT_NUM_PHASES=2, TTT_BATCH_SIZE=4,
              TTT_CHUNK_SIZE=64, TTT_EVAL_SEQ_LEN=256, TTT_LORA_RANK=2, TTT_LORA_LR=0.003, VAL_TOKENS=4096,
              EVAL_SEQ_LEN=32, GLOBAL_TTT_CHUNK_TOKENS=512, GLOBAL_TTT_BATCH_SEQS=4, GLOBAL_TTT_LR=0.01)
# Commands get no settings from the environment: they come from the run's config.json.
UNSET = dict.fromkeys([*SMALL, "DATA_PATH", "TOKENIZER_PATH", "OUTPUT_DIR", "RUN_ID"])
# Inconsistent settings of training and validation, which the commands ignore.
UNFIT = ["--train-batch-tokens", 1000, "--val-batch-size", 100, "--val-bytecount-device", "cuda"]


def exact_scores(lines):
    """Returns {name: [val_loss:..., val_bpb:...]} of the final scores."""
    words = [line.split() for line in lines if "_exact val_loss" in line and not line.startswith("DIAGNOSTIC")]
    return {name: scores for name, *scores in words}


def score_of(text, name):
    """Returns the val_loss of the line with that name."""
    return float(re.search(rf"(?m)^{name} val_loss:(\d+\.\d{{8}}) val_bpb:\d+\.\d{{8}} eval_time:\d+ms$", text)[1])


def frequent_token(shard, count):
    """Returns the token whose count in the first 4,096 tokens is nearest to `count`: the licences are longer than
    these."""
    tokens = array.array("H", shard.read_bytes()[1024:][:2 * 4096])
    counts = collections.Counter(tokens)
    return min(counts, key=lambda token: (abs(counts[token] - count), token))


class ModelTest(RunTest):
    small = TWO_LAYERS
    runs = {}

    def trained(self, name, **settings):
        """Returns the folder and the lines of a run with SCORED and these settings, trained once for all tests."""
        if name not in self.runs:
            self.train(output=common_folder() / name, **{**SCORED, **settings})
            self.runs[name] = (self.out, self.lines)
        return self.runs[name]

    def command(self, *words, **settings):
        return self.run_gpt(*words, **{**UNSET, "DEVICE": "cpu", **settings})

    def prints(self, *words, **settings):
        done = self.command(*words, **settings)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.errors = done.stderr
        return done.stdout

    def refuses(self, exit_code, part, *words, **settings):
        done = self.command(*words, **settings)
        self.assertEqual(done.returncode, exit_code, done.stdout + done.stderr)
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(part, errors[0])
