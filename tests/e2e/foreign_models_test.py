"""Models of other programs: the GPT-124M script's checkpoints can be read; all others are rejected with their format's
name."""

import json
import struct
import unittest

import torch
import torch.nn.functional as F
from harness import SMALL, VOCAB
from model_commands import ModelTest, exact_scores
from safetensors.torch import save_file

BAD_DATA = 65
LAYERS, DIM, HEAD, LENGTH = 2, 256, 128, 64


def rms_norm(x):
    return F.rms_norm(x, (x.size(-1),))


def rotated(x):
    """RoPE that rotates halves. x: [B, T, heads, HEAD]"""
    frequency = 10000 ** -(torch.arange(0, HEAD, 2) / HEAD)
    angle = torch.outer(torch.arange(x.size(1)).float(), frequency)[:, None, :]
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * angle.cos() + x2 * angle.sin(), x2 * angle.cos() - x1 * angle.sin()], dim=-1)


def script_loss(weights, ids, targets):
    """Returns the mean loss of the GPT-124M script of 2024-11-08 for these weights. ids: [B, T]"""
    def linear(x, name):
        return F.linear(x, weights[f"transformer.{name}.weight"])

    x0 = x = rms_norm(F.embedding(ids, weights["transformer.wte.weight"]))
    first_v = None
    for i in range(LAYERS):
        block = f"h.{i}."
        mix = weights.get(f"transformer.{block}lambdas", torch.tensor([1.0, 0.0]))
        x = mix[0] * x + mix[1] * x0
        normed = rms_norm(x)
        q, k, v = (linear(normed, f"{block}attn.c_{part}").unflatten(-1, (-1, HEAD)) for part in "qkv")
        first_v = v if first_v is None else first_v
        blend = weights.get(f"transformer.{block}attn.lamb", torch.tensor(0.0))
        v = (1 - blend) * v + blend * first_v
        q, k = rotated(rms_norm(q)), rotated(rms_norm(k))
        y = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)), is_causal=True)
        x = x + linear(y.transpose(1, 2).flatten(2), f"{block}attn.c_proj")
        x = x + linear(F.relu(linear(rms_norm(x), f"{block}mlp.c_fc")).square(), f"{block}mlp.c_proj")
    logits = F.linear(rms_norm(x), weights["lm_head.weight"])
    return F.cross_entropy((30 * torch.tanh(logits / 30)).flatten(0, 1), targets.flatten()).item()


def script_weights(lambdas):
    torch.manual_seed(1)
    shapes = {"lm_head": (VOCAB, DIM), "transformer.wte": (VOCAB, DIM)}
    for i in range(LAYERS):
        shapes |= {f"transformer.h.{i}.attn.{part}": (DIM, DIM) for part in ("c_q", "c_k", "c_v", "c_proj")}
        shapes |= {f"transformer.h.{i}.mlp.c_fc": (4 * DIM, DIM), f"transformer.h.{i}.mlp.c_proj": (DIM, 4 * DIM)}
    weights = {f"{name}.weight": torch.randn(shape) / 16 for name, shape in shapes.items()}
    for i in range(LAYERS if lambdas else 0):
        weights |= {f"transformer.h.{i}.lambdas": torch.tensor([0.9, 0.3 + i]),
                    f"transformer.h.{i}.attn.lamb": torch.tensor(0.25 + 0.5 * i)}
    return weights


class ScriptCheckpointTest(ModelTest):
    def checkpoint(self, weights):
        path = self.folder / "state_step000100.pt"
        torch.save({"step": 100, "code": "import torch", "optimizers": [{"state": {}}],
                    "model": {f"_orig_mod.{name}": value for name, value in weights.items()}}, path)
        return path

    def test_has_the_loss_that_the_script_gives_its_weights(self):
        shard = (self.shards / "fineweb_val_000000.bin").read_bytes()[1024:]
        tokens = torch.tensor(struct.unpack(f"<{len(shard) // 2}H", shard))
        rows = 8
        inputs, targets = (tokens[at:at + rows * LENGTH].view(rows, LENGTH) for at in (0, 1))
        for lambdas in (True, False):
            weights = script_weights(lambdas)
            path = self.checkpoint(weights)
            scores = exact_scores(self.prints(
                "eval", "--init-from", path, "--data-path", self.shards, "--train-seq-len", LENGTH, "--eval-stride", 0,
                "--eval-seq-len", LENGTH, "--val-tokens", rows * LENGTH, "--val-batch-size", rows * LENGTH,
                "--compute-dtype", "fp32", "--loader-order", "strided").splitlines())
            (found,) = {line[0] for line in scores.values()}
            self.assertAlmostEqual(float(found.split(":")[1]), script_loss(weights, inputs, targets), delta=2e-5)
            self.assertIn("GPT-124M script", self.errors)
            self.assertNotIn("no such file", self.errors)

    def test_is_a_model_to_inspect_and_to_export(self):
        path = self.checkpoint(script_weights(True))
        self.assertIn("transformer.h.1.attn.lamb ", self.prints("inspect", path))
        exported = self.folder / "exported"
        self.prints("export", "--hf", exported, "--init-from", path)
        self.assertEqual(json.loads((exported / "config.json").read_text())["value_residual"], "blend")


class ForeignTest(ModelTest):
    def test_a_file_of_another_kind_is_named_by_every_command(self):
        path = self.folder / "model.bin"
        for head, kind in ((b"GGUF\3" + bytes(19), "a GGUF file"), (b"\x08\x08\x12\x07pytorch", "an ONNX model"),
                           (b"\x89HDF\r\n\x1a\n" + bytes(64), "an HDF5 file"),
                           (struct.pack("<8i", 20240326, 3, 8, 16, 1, 2, 8, 16) + bytes(992), "llm.c's model")):
            path.write_bytes(head)
            for command in (["inspect", path], ["eval", "--init-from", path],
                            ["sample", "--prompt", "a", "--init-from", path]):
                self.refuses(BAD_DATA, f"{path} is {kind}", *command)

    def test_gpt_2_is_named_by_its_config_or_by_its_weights(self):
        weights = {f"h.0.{name}": torch.ones(4, 4) for name in ("attn.c_attn.weight", "mlp.c_fc.weight")}
        folder = self.folder / "gpt2"
        folder.mkdir()
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        self.assertIn("h.0.attn.c_attn.weight", self.prints("inspect", folder))
        self.refuses(BAD_DATA, "GPT-2 or nanoGPT", "eval", "--init-from", folder)
        (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 4}))
        self.refuses(BAD_DATA, "a transformers model of type gpt2", "eval", "--init-from", folder)
        nano = self.folder / "ckpt.pt"
        torch.save({"model": {f"_orig_mod.transformer.{name}": value for name, value in weights.items()},
                    "iter_num": 5, "best_val_loss": torch.tensor(3.2)}, nano)
        self.refuses(BAD_DATA, f"{nano} has the weights of GPT-2 or nanoGPT", "eval", "--init-from", nano)


if __name__ == "__main__":
    unittest.main()
