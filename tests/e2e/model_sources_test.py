"""What the commands and INIT_FROM accept as a model, and what they reject: folders of runs and checkpoints, and other
files."""

import collections
import io
import itertools
import json
import lzma
import os
import shutil
import subprocess
import threading
import unittest
import zlib

import torch
from harness import BUILD, TOKENIZER, read_until, train_losses
from model_commands import ModelTest
from safetensors.torch import load_file, save_file

USAGE, BAD_DATA, MISSING, INTERNAL = 64, 65, 66, 70
# Checkpoints of two ranks, the last one at the last step; the weights are not near their average.
SAVED = dict(ranks=2, CHECKPOINT_EVERY=4, KEEP=3, ARTIFACT="int6", TTT_ENABLED=0, EVAL_STRIDE=0,
             EMA_DECAY=0.5)


class SourcesTest(ModelTest):
    def run_folder(self):
        return self.trained("saved", **SAVED)[0]

    def copied(self, name, *left_out):
        """Returns a new copy of the run's folder without these files."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.run_folder(), folder, ignore=lambda _, names: set(names) & set(left_out))
        return folder

    def quantized(self, model, *words):
        """Returns the artifact's bytes for the model."""
        made = self.folder / "made.ptz"
        self.prints("quantize", "--init-from", model, "--out", made, *words)
        return made.read_bytes()

    def val_line(self, model, *words, **settings):
        """Returns the scores of the model."""
        lines = self.prints("eval", "--init-from", model, *words, "--eval-stride", 0, **settings).splitlines()
        return next(line.split(" eval_time")[0] for line in lines if line.startswith("final_"))


class FoldersTest(SourcesTest):
    FINAL = [f"final_model.{suffix}" for suffix in ("safetensors", "pt", "int6.ptz")]

    def test_a_run_is_its_final_model(self):
        run = self.run_folder()
        artifact = (run / "final_model.int6.ptz").read_bytes()
        self.assertEqual(self.quantized(run), artifact)
        self.assertIn(f"{run}: the model is {run}/final_model.safetensors\n", self.errors)
        self.assertIn("\n  NUM_LAYERS=2\n", self.prints("inspect", run))
        longer = self.copied("longer")
        (longer / "checkpoints" / "finished.json").unlink()  # as a run does that continues
        self.quantized(longer)
        self.assertIn("final_model.safetensors; its run has gone on since, to step 8\n", self.errors)
        alone = self.copied("artifact_alone", *self.FINAL[:2], "checkpoints")
        self.assertEqual(self.val_line(alone), self.val_line(run / self.FINAL[2]))

    def test_a_checkpoint_is_what_its_run_would_end_with(self):
        run = self.run_folder()
        artifact = (run / "final_model.int6.ptz").read_bytes()
        last = run / "checkpoints" / "step-00000008"
        self.assertEqual(self.quantized(last), artifact)
        self.assertIn(f"{last}: the average (EMA) of the weights\n", self.errors)
        self.assertEqual(self.quantized(f"{last}/", "--weights", "ema"), artifact)
        raw = self.quantized(last, "--weights", "raw")
        self.assertIn(f"{last}: the weights as trained\n", self.errors)
        self.assertNotEqual(raw, artifact)
        # A run without averaging ends with these weights.
        plain, _ = self.trained("plain", **SAVED | dict(EMA_ENABLED=0))
        self.assertEqual(raw, (plain / "final_model.int6.ptz").read_bytes())
        tables = [self.prints("inspect", "--weights", weights, last) for weights in ("raw", "ema")]
        self.assertIn(": checkpoint, the weights as trained\n", tables[0])
        self.assertIn("\n  NUM_LAYERS=2\n", tables[1])
        self.assertNotEqual(*(table.split("\n\n")[1] for table in tables))

    def test_every_command_takes_a_checkpoint(self):
        last = self.run_folder() / "checkpoints" / "step-00000008"
        final = self.run_folder() / "final_model.pt"
        self.assertEqual(self.val_line(last), self.val_line(final))
        sample = ("--prompt", "The", "--tokens", 5, "--temperature", 0)
        self.assertEqual(self.prints("sample", "--init-from", last, *sample),
                         self.prints("sample", "--init-from", final, *sample))
        for name, model in (("a.hf", last), ("b.hf", final)):
            self.prints("export", "--hf", self.folder / name, "--init-from", model)
        for file in ("model.safetensors", "config.json"):
            self.assertEqual(*((self.folder / name / file).read_bytes() for name in ("a.hf", "b.hf")))

    def test_without_a_final_model_the_newest_valid_checkpoint_counts(self):
        run = self.copied("unfinished", *self.FINAL)
        artifact = (self.run_folder() / "final_model.int6.ptz").read_bytes()
        for model in (run, run / "checkpoints"):
            self.assertEqual(self.quantized(model), artifact)
            self.assertIn(f"{model}: the newest checkpoint, {run}/checkpoints/step-00000008; the average (EMA)",
                          self.errors)
        share = run / "checkpoints" / "step-00000008" / "rank-00001.safetensors"
        os.truncate(share, share.stat().st_size - 1)
        older = self.quantized(run)
        self.assertIn("step-00000008 is skipped: ", self.errors)
        self.assertEqual(older, self.quantized(run / "checkpoints" / "step-00000004"))
        self.refuses(BAD_DATA, "rank-00001.safetensors: expected", "inspect", run / "checkpoints" / "step-00000008")

    def test_weights_choose_in_a_checkpoint_alone(self):
        run = self.run_folder()
        self.quantized(run, "--weights", "raw")
        self.assertIn("step-00000008; the weights as trained\n", self.errors)
        for model in (run / "final_model.pt", self.copied("final_alone", "checkpoints")):
            self.refuses(USAGE, "WEIGHTS=raw chooses in a checkpoint", "sample", "--prompt", "a", "--init-from", model,
                         "--weights", "raw")
        plain, _ = self.trained("plain", **SAVED | dict(EMA_ENABLED=0))
        self.refuses(USAGE, "has no average of the weights", "inspect", plain, "--weights", "ema")
        self.refuses(USAGE, "expected auto|raw|ema", "eval", "--init-from", run, "--weights", "mean")
        self.refuses(USAGE, "expected raw or ema, found 'mean'", "inspect", run, "--weights=mean")

    def test_an_earlier_run_of_the_same_name_brings_its_own_settings(self):
        run = self.copied("numbered")
        (run / "checkpoints").rename(run / "checkpoints.1")
        (run / "config.json").rename(run / "config.1.json")
        self.assertEqual(self.quantized(run / "checkpoints.1" / "step-00000008"),
                         (run / "final_model.int6.ptz").read_bytes())
        self.assertNotIn("WARN", self.errors)

    def test_a_run_begins_with_either(self):
        run = self.run_folder()
        models = ((run / "final_model.pt", {}), (run, {}), (run / "checkpoints" / "step-00000008", {}),
                  (run, dict(WEIGHTS="raw")), (run, dict(WEIGHTS="ema", ranks=2)))
        final, by_run, by_step, raw, two = [
            train_losses(self.train(output=f"from{i}", INIT_FROM=model, ITERATIONS=1, GRAD_ACCUM_STEPS=None,
                                    **settings))
            for i, (model, settings) in enumerate(models)]
        self.assertEqual(final, by_run)
        self.assertEqual(final, by_step)
        self.assertNotEqual(final, raw)
        self.assertAlmostEqual(final[0], two[0], delta=1e-5)
        self.assertIn("step-00000008; the average (EMA) of the weights", (self.folder / "from4" / "log.txt").read_text())

    def test_a_run_resumes_without_the_model_it_began_with(self):
        model = self.copied("gone")
        begun = dict(output="goes_on", INIT_FROM=model, CHECKPOINT_EVERY=4)
        self.train(**begun, ITERATIONS=4)
        shutil.rmtree(model)
        self.assertEqual(len(train_losses(self.train(**begun, ITERATIONS=6))), 6)

    def test_of_a_run_that_is_still_training(self):
        running = dict(output="running", ITERATIONS=1000000, CHECKPOINT_EVERY=1, KEEP=1, VAL_LOSS_EVERY=0,
                       TRAIN_LOG_EVERY=1000000)
        with self.start_gpt(**running) as process:
            try:
                run = self.out
                read_until(process, "checkpoint")
                # The process would block if nobody read its output.
                threading.Thread(target=process.stdout.read).start()
                models = set()
                for _ in range(3):
                    self.quantized(run)
                    self.assertRegex(self.errors, r"running: the newest checkpoint, .*step-\d{8}; the average \(EMA\)")
                    models.add(self.errors)
                self.assertGreater(len(models), 1)  # it trained meanwhile
                self.prints("inspect", run)
                self.val_line(run, ranks=2)
                self.assertRegex(self.errors, r"running/checkpoints: the newest checkpoint, .*step-\d{8}; the average")
                self.assertIsNone(process.poll())
            finally:
                process.kill()


class WeightsOfOthersTest(SourcesTest):
    def test_wrappers_are_taken_off_and_a_line_says_so(self):
        run = self.run_folder()
        weights = load_file(run / "final_model.safetensors")
        wrapped = collections.OrderedDict((f"_orig_mod.{name}", value) for name, value in weights.items())
        beside = {"model": wrapped, "optimizer": {"state": {0: {"step": torch.tensor(3.)}}}, "step": 3}
        parallel = {f"module._orig_mod.{name}": value for name, value in weights.items()}
        tied = wrapped | {"_orig_mod.lm_head.weight": wrapped["_orig_mod.tok_emb.weight"]}
        for name, content, said in (
                ("orig_mod.pt", wrapped, "_orig_mod. taken off the names"),
                ("parallel.pt", {"model_state_dict": parallel},
                 "the weights under 'model_state_dict'; module., _orig_mod. taken off the names"),
                ("tied.pt", tied, "without lm_head.weight; _orig_mod. taken off the names"),
                ("beside.pt", beside,
                 "the weights under 'model'; without optimizer, step; _orig_mod. taken off the names")):
            path = self.copied("others", "checkpoints") / name
            torch.save(content, path)
            self.assertEqual(self.quantized(path), (run / "final_model.int6.ptz").read_bytes())
            self.assertIn(f"{path}: {said}\n", self.errors)
        self.assertIn("torch.save, under 'model'\n\n", self.prints("inspect", path))
        events = [self.train(output=f"wrapped{i}", INIT_FROM=model, ITERATIONS=1)
                  for i, model in enumerate((path, run / "final_model.pt"))]
        self.assertEqual(*map(train_losses, events))

    def test_what_transformers_saves_of_an_export_is_read_back(self):
        run = self.run_folder()
        exported = self.folder / "exported"
        self.prints("export", "--hf", exported, "--init-from", run)
        artifact = (run / "final_model.int6.ptz").read_bytes()
        self.assertEqual(self.quantized(exported), artifact)
        self.assertIn(f"{exported}/model.safetensors: model. taken off the names\n", self.errors)
        # As save_pretrained() writes it: the config with its own fields, the weights in shards with an index.
        config = json.loads((exported / "config.json").read_text())
        saved = self.folder / "fine_tuned"
        saved.mkdir()
        (saved / "config.json").write_text(json.dumps(config | {
            "transformers_version": "4.57.1", "dtype": "float32", "_name_or_path": str(exported)}))
        weights = load_file(exported / "model.safetensors")
        names = sorted(weights)
        index = {}
        for i, part in enumerate((names[:len(names) // 2], names[len(names) // 2:]), 1):
            file = f"model-0000{i}-of-00002.safetensors"
            save_file({name: weights[name] for name in part}, saved / file, metadata={"format": "pt"})
            index |= dict.fromkeys(part, file)
        size = sum(value.numel() * 4 for value in weights.values())
        (saved / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {"total_size": size}, "weight_map": index}, indent=2))
        self.assertEqual(self.quantized(saved), artifact)
        self.assertEqual(self.quantized(saved / "model.safetensors.index.json"), artifact)
        self.assertIn(": safetensors, in several files\n", self.prints("inspect", saved))
        # The tokenizer of the export is stored with the weights.
        text = self.prints("sample", "--init-from", exported, "--prompt", "The", "--tokens", 3, "--temperature", 0)
        self.assertEqual(text, self.prints("sample", "--init-from", run, "--prompt", "The", "--tokens", 3,
                                           "--temperature", 0))
        again = self.folder / "exported_again"
        self.prints("export", "--hf", again, "--init-from", saved, "--tokenizer-path", TOKENIZER)
        for file in ("model.safetensors", "config.json"):
            self.assertEqual((again / file).read_bytes(), (exported / file).read_bytes())
        (saved / "model-00002-of-00002.safetensors").unlink()
        self.refuses(MISSING, "model-00002-of-00002.safetensors", "inspect", saved)

    def test_in_half_precision_they_are_the_same_model(self):
        run = self.run_folder()
        weights = load_file(run / "final_model.safetensors")
        expected = self.val_line(run)
        for dtype in (torch.bfloat16, torch.float16):
            path = self.copied("half", "checkpoints") / "half.safetensors"
            save_file({name: value.to(dtype) for name, value in weights.items()}, path)
            losses = [float(line.split("val_loss:")[1].split()[0]) for line in (self.val_line(path), expected)]
            self.assertAlmostEqual(*losses, delta=1e-3)


class NonfiniteTest(SourcesTest):
    def test_weights_that_are_not_finite_are_named_and_never_used(self):
        folder = self.copied("nonfinite", "checkpoints")
        weights = load_file(folder / "final_model.safetensors")
        bad = [folder / "nan.safetensors", folder / "inf.pt", folder / "minus.safetensors"]
        weights["qo_bank"][-1, -1, -1] = float("nan")
        save_file(weights, bad[0])
        weights["qo_bank"][-1, -1, -1] = float("inf")
        torch.save({"model": weights}, bad[1])
        weights["qo_bank"][-1, -1, -1] = float("-inf")
        save_file({name: value.half() for name, value in weights.items()}, bad[2])
        tasks = {"--hellaswag": {"ctx": "The", "endings": ["a", "b", "c", "d"], "label": 0},
                 "--lambada": {"text": "The licence"}}
        for flag, line in tasks.items():
            (folder / f"{flag[2:]}.jsonl").write_text(json.dumps(line) + "\n")
        commands = [["eval"], *(["eval", flag, folder / f"{flag[2:]}.jsonl"] for flag in tasks),
                    ["sample", "--prompt", "The"], ["export", "--hf", self.folder / "out"],
                    ["quantize", "--out", self.folder / "out"]]
        for path, command in [*itertools.product(bad[:1], commands), *((path, commands[0]) for path in bad[1:])]:
            with self.subTest(path=path.name, command=command[:2]):
                self.refuses(INTERNAL, f"{path.name}: qo_bank is not finite", *command, "--init-from", path)
                self.assertFalse((self.folder / "out").exists())
        self.fails(INTERNAL, "nan.safetensors: qo_bank is not finite", output="begun", INIT_FROM=bad[0])
        self.assertRegex(self.prints("inspect", bad[0]), r"nonfinite\n(.*\n)*qo_bank .* 1\n")

    def test_nor_are_artifacts_with_such_weights_or_scales(self):
        folder = self.copied("spoilt", "checkpoints")
        name, path = "blocks.0.attn.c_q.weight", folder / "spoilt.ptz"

        def load(artifact, unpack):
            return torch.load(io.BytesIO(unpack(artifact.read_bytes())), weights_only=True)

        def refused(content, pack, what):
            unpacked = io.BytesIO()
            torch.save(content, unpacked)
            path.write_bytes(pack(unpacked.getvalue()))
            for command in (["eval"], ["sample", "--prompt", "The"], ["export", "--hf", self.folder / "out"]):
                self.refuses(INTERNAL, f"spoilt.ptz: {what} is not finite", *command, "--init-from", path)
            self.assertFalse((self.folder / "out").exists())

        content = load(folder / "final_model.int6.ptz", lzma.decompress)
        matrix = content["w"][name]
        rows, scales = torch.zeros(matrix.shape, dtype=torch.int8), torch.ones(len(matrix), dtype=torch.half)
        content["w"]["smear.gate"][0] = float("-inf")
        refused(content, lzma.compress, "smear.gate")
        scales[-1] = float("nan")
        content = load(folder / "final_model.int6.ptz", lzma.decompress)
        del content["w"][name]
        content["w"] |= {f"{name}.q": rows, f"{name}.scale": scales}
        content["m"][name] = {"type": "int6"}
        refused(content, lzma.compress, name)
        small = folder / "small.int8.ptz"
        self.prints("quantize", "--init-from", folder, "--out", small, "--artifact", "int8_zlib")
        content = load(small, zlib.decompress)
        del content["passthrough"][name]
        content.get("passthrough_orig_dtypes", {}).pop(name, None)
        scales[-1] = float("inf")
        for key, value in (("quantized", rows), ("scales", scales), ("dtypes", "float32"),
                           ("qmeta", {"scheme": "per_row", "axis": 0})):
            content.setdefault(key, {})[name] = value
        refused(content, lambda bytes_: zlib.compress(bytes_, 9), name)

    def test_nor_is_an_artifact_of_numbers_beyond_fp16(self):
        folder = self.copied("beyond", "checkpoints")
        weights = load_file(folder / "final_model.safetensors")
        weights["smear.gate"][0] = 1e5
        save_file(weights, folder / "large.safetensors")
        for artifact in ("int6", "int8_zlib"):
            self.refuses(INTERNAL, "smear.gate: not finite as the artifact's Half", "quantize", "--init-from",
                         folder / "large.safetensors", "--out", self.folder / "out", "--artifact", artifact,
                         "--int8-keep-float-fp32-name-patterns", "none")
            self.assertFalse((self.folder / "out").exists())


class PathsTest(SourcesTest):
    def test_a_path_of_the_wrong_kind_is_missing_input_to_every_command(self):
        model = self.run_folder() / "final_model.pt"
        kinds = {name: self.folder / f"a_{name}" for name in ("missing", "folder", "pipe", "below")}
        kinds["folder"].mkdir()
        os.mkfifo(kinds["pipe"])
        kinds["below"] = model / "below"
        commands = {
            "init_from": lambda path: ["eval", "--init-from", path],
            "sample": lambda path: ["sample", "--prompt", "a", "--init-from", path],
            "inspect": lambda path: ["inspect", path],
            "export": lambda path: ["export", "--hf", "out", "--init-from", path],
            "quantize": lambda path: ["quantize", "--out", "out", "--init-from", path],
            "tokenizer": lambda path: ["sample", "--prompt", "a", "--init-from", model, "--tokenizer-path", path],
            "hellaswag": lambda path: ["eval", "--init-from", model, "--hellaswag", path],
            "shards": lambda path: ["eval", "--init-from", model, "--data-path", path],
            "train": lambda path: ["train", "--init-from", path, "--data-path", self.shards, "--tokenizer-path",
                                   TOKENIZER, "--output-dir", self.folder / "never"],
        }
        for (kind, path), (name, words) in itertools.product(kinds.items(), commands.items()):
            with self.subTest(kind=kind, of=name):
                self.refuses(MISSING, path.name, *words(path))
                self.assertFalse((self.folder / "out").exists())
        for path in kinds.values():
            done = subprocess.run([BUILD / "make_shards", "--tokenizer", path, "--out", "out", TOKENIZER],
                                  capture_output=True, text=True, cwd=self.folder)
            self.assertEqual(done.returncode, MISSING, done.stderr)

    def test_a_folder_without_a_model_says_what_one_has(self):
        run = self.copied("nothing", *FoldersTest.FINAL, "checkpoints")
        self.refuses(MISSING, "expected a model (in a run's folder final_model.safetensors", "inspect", run)
        (run / "checkpoints").write_text("no folder")
        self.refuses(MISSING, "expected a model", "eval", "--init-from", run)

    @unittest.skipIf(os.geteuid() == 0 and shutil.which("setpriv") is None, "setpriv is not installed")
    def test_a_file_without_permission_is_missing_input(self):
        secret = self.copied("secret", "checkpoints")
        for path in (secret / "final_model.pt", secret):
            path.chmod(0)
        nobody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        try:
            self.folder.chmod(0o755)
            for path in (secret, secret / "final_model.pt"):
                done = self.command("inspect", path, through=nobody)
                self.assertEqual(done.returncode, MISSING, done.stderr)
                self.assertIn("Permission denied", done.stderr)
        finally:
            self.folder.chmod(0o700)
            secret.chmod(0o700)


if __name__ == "__main__":
    unittest.main()
