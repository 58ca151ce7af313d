"""The parts that train_gpt's exported models share: norm, MLP, positions, and the wrapper for transformers.

Shapes: B sequences, T tokens, D model_dim, V vocab_size.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


def rms_norm(x):
    return F.rms_norm(x.float(), x.shape[-1:], eps=1.1920929e-07).to(x.dtype)


def softcapped(z, config):
    cap = config.logit_softcap
    return cap * torch.tanh((z + config.logit_softcap_shift) / (config.logit_softcap_temperature or cap))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = int(config.mlp_mult * config.model_dim)
        self.slope = config.mlp_negative_slope
        self.fc = nn.Linear(config.model_dim, hidden, bias=False)
        self.proj = nn.Linear(hidden, config.model_dim, bias=False)

    def forward(self, x):
        return self.proj(F.leaky_relu(self.fc(x), self.slope).square())


class Positions:
    """Positions of the ids [B, T] among their row's tokens, without padding, where `mask` [B, T] is 0: padding on
    either side, or between tokens, does not affect other tokens."""

    def __init__(self, ids, mask):
        self.real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        self.position = (self.real.cumsum(1) - 1).clamp_min(0)
        self.index = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        last = self.index.masked_fill(~self.real, -1).cummax(1).values
        before = F.pad(last[:, :-1], (1, 0), value=-1)
        self.last, self.before = last.clamp_min(0), before.clamp_min(0)  # last token's index up to, before a position
        self.first = before < 0

    def at_last_tokens(self, states):
        """Returns the states [B, N, D] of the last N positions, at padding those of the last token before it."""
        known = self.last.shape[1] - states.shape[1]
        last = (self.last[:, known:] - known).clamp_min(0)
        return states.gather(1, last[..., None].expand_as(states))


def cached_tokens(ids, cache):
    """Returns how many of the ids [B, T] the cache holds; at least one is new."""
    known = 0 if cache is None else cache.get_seq_length()
    if known >= ids.shape[1]:
        raise ValueError(f"{ids.shape[1]} tokens and a cache of {known}: expected all tokens, also the cached")
    return known


class Config(PretrainedConfig):
    model_type = "train_gpt"
    attribute_map = {"hidden_size": "model_dim", "num_attention_heads": "num_heads",
                     "num_key_value_heads": "num_kv_heads", "max_position_embeddings": "train_seq_len"}


class CausalLM(PreTrainedModel, GenerationMixin):
    """Wraps a plain model of the class `plain`: ids [B, T], cache, mask → logits [B, N, V] of the tokens that are not
    cached."""

    base_model_prefix = "model"
    plain = None

    def __init__(self, config):
        super().__init__(config)
        self.model = self.plain(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.tok_emb

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, past_key_values=None, cache=None, **_):
        """Passes all ids, since the embedding of a token also reads the previous token."""
        cache = past_key_values if cache is None else cache
        return {"input_ids": input_ids, "attention_mask": attention_mask, "cache": cache}

    def forward(self, input_ids, attention_mask=None, labels=None, cache=None, **_):
        """attention_mask [B, T]: 0 at padding, on either side. labels: the input_ids; each is the target at the
        previous position, except -100, padding and a row's first token. cache: holds the keys and values of the first
        input_ids; only the other positions get logits."""
        if attention_mask is not None and attention_mask.shape != input_ids.shape:
            raise ValueError(f"attention_mask {list(attention_mask.shape)}: expected 0 or 1 for each of the "
                             f"input_ids {list(input_ids.shape)}")
        logits, loss = self.model(input_ids, cache, attention_mask), None
        if labels is not None:
            if attention_mask is not None:
                real = attention_mask.bool()
                labels = labels.masked_fill(~real | (real.cumsum(1) == 1), -100)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)
