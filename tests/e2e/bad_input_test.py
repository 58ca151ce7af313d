"""Invalid input ends a run with one error line and the right exit code, and destroys nothing."""

import json
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import unittest

from harness import BUILD, SMALL, TOKENIZER, VOCAB, RunTest, read_events, write_shard
from safetensors.numpy import load_file, save_file

USAGE, BAD_DATA, MISSING, INTERNAL, MEMORY, CANNOT_CREATE, CONFIG = 64, 65, 66, 70, 71, 73, 78


class SettingsTest(RunTest):
    def test_unknown_names_suggest_the_nearest(self):
        done = self.run_gpt("--matrix-lrr", "0.1")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("matrix-lr", done.stderr)
        preset = self.folder / "bad.env"
        preset.write_text("MATRX_LR=0.1\n")
        done = self.run_gpt("--config", preset)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("MATRIX_LR", done.stderr)

    def test_values_that_are_no_number(self):
        self.fails(USAGE, "MATRIX_LR", "fast", MATRIX_LR="fast")
        self.fails(USAGE, "LOADER_ORDER", "zigzag", "stream", LOADER_ORDER="zigzag")

    def test_all_impossible_combinations_are_reported_together(self):
        done = self.run_gpt(NUM_HEADS=3, VE_LAYERS="9", TRAIN_BATCH_TOKENS=1000)
        self.assertEqual(done.returncode, CONFIG)
        for word in ("NUM_HEADS", "VE_LAYERS", "TRAIN_BATCH_TOKENS"):
            self.assertIn(word, done.stderr)

    def test_cuda_that_is_not_there(self):
        self.fails(USAGE, "DEVICE=cuda", "DEVICE=cpu", DEVICE="cuda", CUDA_VISIBLE_DEVICES="")
        self.fails(USAGE, "HOPPER=1", "found CPU", "leave HOPPER out", DEVICE="cpu", HOPPER=1)

    def test_counts_of_tokens_beyond_reason(self):
        # tests/config/parse_test.cpp tests the other limits.
        self.fails(USAGE, "VAL_TOKENS", f"in [0, {1 << 40}]", 2**63 - 2048, VAL_TOKENS=2**63 - 2048)

    def test_a_terminal_is_shown_paths_and_values_but_does_not_obey_them(self):
        evil, readable = "\x1b[2J\u202e\nERROR exit=0", "\\x1b[2J\\u202e\\x0aERROR exit=0"
        for code, settings in ((MISSING, dict(DATA_PATH=f"/{evil}")), (USAGE, dict(LOADER_ORDER=evil)),
                               (MISSING, dict(TOKENIZER_PATH=f"/{evil}")), (USAGE, dict(DATA_PATH=f"synthetic:{evil}"))):
            self.assertNotIn("\x1b", self.fails(code, readable, **settings))

    def test_half_a_set_of_rank_variables(self):
        self.fails(USAGE, "WORLD_SIZE", RANK=0)

    def test_memory_exhausted_names_what_to_lower(self):
        # Enough virtual memory for LibTorch and the small model, but not for this model.
        self.fails(MEMORY, "parameters", "TRAIN_BATCH_TOKENS", "MODEL_DIM", MODEL_DIM=1048576, NUM_HEADS=4096,
                   NUM_KV_HEADS=4096)


class DataTest(RunTest):
    def test_shards_of_which_none_has_a_round_of_documents(self):
        self.fails(BAD_DATA, "fineweb_train_*.bin: no shard is long enough", "expected, from its first document on, 262146 tokens",
                   LOADER_ORDER="documents", TRAIN_BATCH_TOKENS=262144)
        self.fails(BAD_DATA, "no document begins", "BOS_ID=65535", LOADER_ORDER="documents", BOS_ID=65535, VOCAB_SIZE=65536,
                   TOKENIZER_PATH="")

    def shards_with(self, name, **shard):
        folder = self.folder / name
        folder.mkdir()
        shutil.copy(self.shards / "fineweb_val_000000.bin", folder)
        write_shard(folder / "fineweb_train_000000.bin", **shard)
        return folder

    def test_no_shards(self):
        next_steps = ("scripts/quickstart.sh", "data/download_fineweb.py", "DATA_PATH")
        empty = self.folder / "empty"
        empty.mkdir()
        for folder in (self.folder / "none", empty):
            self.fails(MISSING, "No files found for pattern: ", "fineweb_train_*.bin", *next_steps, DATA_PATH=folder)

    def test_wrong_magic_version_and_count(self):
        tokens = [1] * 2000
        for name, expected, change in (
            ("magic", "Unexpected shard header for ", dict(magic=20240521)),
            ("version", "Unexpected shard header for ", dict(version=2)),
            ("count", "Shard size mismatch for ", dict(count=1999)),
        ):
            folder = self.shards_with(name, tokens=tokens, **change)
            self.fails(BAD_DATA, expected, folder / "fineweb_train_000000.bin", DATA_PATH=folder)

    def test_shard_cut_short(self):
        folder = self.shards_with("cut", tokens=[1] * 2000)
        path = folder / "fineweb_train_000000.bin"
        os.truncate(path, path.stat().st_size - 1)
        self.fails(BAD_DATA, "Shard size mismatch for ", "expected 5024 bytes", DATA_PATH=folder)

    def test_token_beyond_the_vocabulary(self):
        folder = self.shards_with("token", tokens=[1] * 1500 + [VOCAB] + [1] * 500)
        self.fails(BAD_DATA, "fineweb_train_000000.bin", "1500", VOCAB, DATA_PATH=folder)

    def test_tokenizer_missing_empty_cut_and_of_another_size(self):
        self.fails(MISSING, "gone.model", TOKENIZER_PATH=self.folder / "gone.model")
        whole = TOKENIZER.read_bytes()
        for name, content in (("empty.model", b""), ("cut.model", whole[: len(whole) // 2]),
                              ("noise.model", bytes(range(256)) * 8)):
            (self.folder / name).write_bytes(content)
            self.fails(BAD_DATA, name, TOKENIZER_PATH=self.folder / name)
        self.fails(CONFIG, f"VOCAB_SIZE=600 does not match tokenizer vocab_size={VOCAB}", VOCAB_SIZE=600)


class InitFromTest(RunTest):
    def run_of_one_step(self):
        """Returns the shards' folder, which is created once."""
        self.out = self.folder / "one-step"
        if not self.out.exists():
            self.train(output="one-step", ITERATIONS=1)
        return self.out

    def start_from(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def safetensors(self, header, data=b"", length=None):
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def test_files_that_are_missing_cut_or_crafted(self):
        self.fails(MISSING, "gone.safetensors", INIT_FROM=self.folder / "gone.safetensors")
        good = (self.run_of_one_step() / "final_model.safetensors").read_bytes()
        a, b = ({"dtype": "F32", "shape": [2], "data_offsets": place} for place in ([0, 8], [4, 12]))
        far = {"dtype": "F32", "shape": [2], "data_offsets": [1 << 40, (1 << 40) + 8]}
        for name, content in (
            ("cut.safetensors", good[: len(good) // 2]),
            ("gigabytes.safetensors", self.safetensors({}, length=1 << 40)),
            ("overlap.safetensors", self.safetensors({"a": a, "b": b}, bytes(12))),
            ("outside.safetensors", self.safetensors({"a": far}, bytes(8))),
            ("pickle.pt", b"cos\nsystem\n(S'touch owned'\ntR."),
        ):
            with self.subTest(name):
                self.fails(BAD_DATA, name, INIT_FROM=self.start_from(name, content))
        self.assertFalse((self.folder / "owned").exists())

    def test_weights_of_another_shape_are_named(self):
        weights = self.run_of_one_step() / "final_model.safetensors"
        self.fails(BAD_DATA, "qo_bank (expected [8, 64, 64], found [8, 32, 32])", output="wider", INIT_FROM=weights,
                   MODEL_DIM=64)

    def test_a_failing_start_leaves_an_earlier_run_untouched(self):
        before = {path.name: path.read_bytes() for path in self.run_of_one_step().iterdir()}
        self.fails(MISSING, "gone.pt", output="one-step", INIT_FROM=self.folder / "gone.pt")
        self.assertEqual(before, {path.name: path.read_bytes() for path in self.out.iterdir()})


class OutputTest(RunTest):
    def test_output_dir_that_cannot_be_made(self):
        (self.folder / "file").write_text("in the way")
        self.fails(CANNOT_CREATE, "OUTPUT_DIR", output="file/below")

    def test_loss_that_is_no_number_stops_before_the_update_and_writes_no_model(self):
        line = self.fails(INTERNAL, "must be finite", "MATRIX_LR", "ON_NONFINITE=skip", output="nan",
                          MATRIX_LR=1e30, SCALAR_LR=1e30, TIED_EMBED_LR=1e30)
        step, text = re.fullmatch(r"ERROR exit=70 rank=0 step=(\d+): (.*)", line).groups()
        self.assertEqual(read_events(self.out)[-1], {"event": "exit", "code": INTERNAL, "step": int(step), "text": text})
        self.assertFalse((self.out / "final_model.pt").exists())

    def test_skipped_steps_keep_the_weights_finite(self):
        events = self.train(output="skip", ON_NONFINITE="skip", MATRIX_LR=1e30, SCALAR_LR=1e30,
                            TIED_EMBED_LR=1e30, EMA_ENABLED=0, SWA_ENABLED=0, ITERATIONS=4, WARMUP_STEPS=0)
        self.assertTrue(any("update skipped" in line for line in self.warnings), self.warnings)
        self.assertEqual(len([event for event in events if event["event"] == "train"]), 4)

    def huge_weights(self):
        """Returns a model with finite weights whose first loss is not finite."""
        self.train(output="start", ITERATIONS=1)
        weights = load_file(self.out / "final_model.safetensors")
        weights["qo_bank"][:] = 3e38
        path = self.folder / "huge.safetensors"
        save_file(weights, path)
        return path

    def test_skipping_is_given_up_on_all_ranks_alike(self):
        start = self.huge_weights()
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                name = f"given-up{ranks}"
                done = self.run_gpt(output=name, ranks=ranks, INIT_FROM=start,
                                    ON_NONFINITE="skip", NONFINITE_LIMIT=3, ITERATIONS=30)
                self.assertEqual(done.returncode, INTERNAL, done.stderr)
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
                self.assertNotEqual(errors, [])
                for line in errors:  # mpirun may kill one rank before it has written the line
                    self.assertRegex(line, r"^ERROR exit=70 rank=[01] step=2: step 3: .*3 steps in a row.*NONFINITE_LIMIT=3")
                self.assertFalse(any(self.out.glob("final_model*")))

    def test_a_model_that_is_not_finite_is_never_written(self):
        # In the only update the gradients are finite, so it is not skipped, but the resulting weights are not
        # finite.
        endless = dict(MATRIX_LR=1e39, ITERATIONS=1, WARMUP_STEPS=0)
        for name, chosen in (("last", dict(EMA_ENABLED=0, SWA_ENABLED=0)), ("averaged", {}),
                             ("skip", dict(ON_NONFINITE="skip")), ("ranks", dict(ranks=2))):
            with self.subTest(name):
                done = self.run_gpt(output=name, **endless, **chosen)
                self.assertEqual(done.returncode, INTERNAL, done.stdout + done.stderr)
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR ")]
                self.assertNotEqual(errors, [])
                for line in errors:
                    self.assertRegex(line, r"^ERROR exit=70 rank=[01] step=\d+: .*qo_bank.*not finite.*MATRIX_LR")
                self.assertFalse(any(self.out.glob("final_model*")))


if __name__ == "__main__":
    unittest.main()
