"""Common code of the tests of exports: runs a model's export in plain PyTorch."""

import importlib
import json
import sys
import types
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from harness import SMALL, RunTest
from safetensors.torch import load_file

# Trained for long enough that every part, many of which begin at zero, changes the loss.
TRAINED = {"EMA_ENABLED": 0, "SWA_ENABLED": 0, "WARMDOWN_ITERS": 0, "ITERATIONS": 8, "VAL_LOSS_EVERY": 8}
TOKENS = {"TRAIN_BATCH_TOKENS": 512, "VAL_BATCH_SIZE": 1024, "VAL_TOKENS": 1024}
OF_MODEL = [*SMALL, "TOKENIZER_PATH"]  # read from the run's config.json, not from the environment


def replaced_transformers():
    """Replaces transformers' classes, which may not be installed, by plain ones."""
    base = types.ModuleType("transformers")
    base.PretrainedConfig = base.GenerationMixin = object
    base.PreTrainedModel = torch.nn.Module
    outputs = types.ModuleType("transformers.modeling_outputs")
    outputs.CausalLMOutput = types.SimpleNamespace
    return mock.patch.dict(sys.modules, {base.__name__: base, outputs.__name__: outputs})


def load_modeling(path):
    """Imports an exported module, which imports its neighbours, without writing __pycache__ next to them."""
    package = types.ModuleType("exported")
    package.__path__ = [str(path.parent)]
    with replaced_transformers(), mock.patch.dict(sys.modules, exported=package), \
            mock.patch.object(sys, "dont_write_bytecode", True):
        return importlib.import_module(f"exported.{path.stem}")


def plain_model(folder):
    """Loads the exported model as a plain torch module."""
    config = types.SimpleNamespace(**json.loads((folder / "config.json").read_text()))
    modeling, = folder.glob("modeling_*.py")
    model = load_modeling(modeling).TrainGpt(config)
    weights = {name.removeprefix("model."): value for name, value in load_file(folder / "model.safetensors").items()}
    model.load_state_dict(weights, strict=True)
    return model.eval()


def mean_loss(logits, targets):
    return float(F.cross_entropy(logits.double().flatten(0, 1), targets.flatten()))


def loss_of(model, inputs, targets):
    with torch.no_grad():
        return mean_loss(model(inputs), targets)


class ExportTest(RunTest):
    """A test that trains and exports some of its `models` (name: settings), each once."""

    models = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.set_num_threads(1)
        cls.exports = {}  # for each of the models its folder, created once, and the losses of its run

    def export(self, *flags, **settings):
        """Runs train_gpt export without model settings in the environment."""
        return self.run_gpt("export", *flags, **({name: None for name in OF_MODEL} | settings))

    def train_model(self, name):
        """Trains one of the models; returns the run's events."""
        return self.train(output=name, **self.models[name])

    def exported(self, name):
        """Returns the folder of the model's export, and its run's losses by name."""
        if name not in self.exports:
            events = self.train_model(name)
            losses = {e["name"]: e["val_loss"] for e in events if e["event"] == "final"}
            losses |= {e["step"]: e["val_loss"] for e in events if e["event"] == "val"}
            losses["val"] = [e["val_loss"] for e in events if e["event"] == "val"][-1]
            folder = self.folder / f"{name}.hf"
            done = self.export("--hf", folder, "--init-from", self.folder / name / "final_model.safetensors")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, rf"^{folder}: README.md, config.json, .*, model.safetensors \(\d+ parameters\), .*\n$")
            self.exports[name] = folder, losses
        return self.exports[name]

    def shards_of(self, name):
        """Returns the folder of the shards that the model's run reads."""
        return self.shards

    def validation_rows(self, name):
        """Returns inputs and targets of the run's validation, [rows, tokens]."""
        settings = SMALL | self.models[name]
        shard = np.fromfile(self.shards_of(name) / "fineweb_val_000000.bin", dtype="<u2")[512:].astype(np.int64)
        tokens = torch.from_numpy(shard[:settings["VAL_TOKENS"] + 1])
        self.assertEqual(len(tokens), settings["VAL_TOKENS"] + 1)
        row = settings["EVAL_SEQ_LEN"] or settings["TRAIN_SEQ_LEN"]
        return (part.view(-1, row) for part in (tokens[:-1], tokens[1:]))

    def assert_loss(self, name, found, expected):
        print(f"{name}: loss {found:.9f}, of the run {expected:.9f}")
        self.assertAlmostEqual(found / expected, 1, delta=1e-6)
