"""Record 43's optimizers: NorMuon, and Adam with its script's place of eps."""
import math

import torch

from peer.normuon import NorMuon


class ScriptAdam(torch.optim.AdamW):
    """AdamW, but eps is added to the root of v before the bias correction, as in the script."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        for group in self.param_groups:
            group["updates"], group["script_eps"] = 0, group["eps"]

    def step(self):
        for group in self.param_groups:
            group["updates"] += 1
            group["eps"] = group["script_eps"] / math.sqrt(1 - group["betas"][1] ** group["updates"])
        super().step()


def make_optimizers(s, model, compiled):
    blocks = model.blocks.values()
    attending = [block.attn for block in blocks if block.attn is not None]
    qkvo, gates = ([getattr(attn, name) for attn in attending] for name in ("qkvo_w", "attn_gate"))
    dim = s.MODEL_DIM

    def single(matrices):
        return dict(params=matrices, shape=(1, *matrices[0].shape))

    muon = NorMuon(s, [
        dict(params=qkvo, shape=(4, dim, dim)),
        dict(single([block.mlp.c_fc for block in blocks]), multiplier=2.0),
        single([block.mlp.c_proj for block in blocks]),
        single([gate.weight for gate in gates]),
        single([model.smear_gate.weight]),
    ], model.compute_dtype, compiled)
    tables = [model.embed.weight, *(table.weight for table in model.value_embeds)]
    groups = [
        dict(params=tables, lr=s.EMBED_LR),
        dict(params=[model.scalars], lr=s.SCALAR_LR),
        dict(params=[model.lm_head.weight], lr=s.HEAD_LR),
    ]
    return ScriptAdam(groups, betas=(s.BETA1, s.BETA2), eps=s.ADAM_EPS, weight_decay=s.ADAM_WD, fused=True), muon
