"""The parts that train_gpt's exported models share: norm, MLP, embeddings, positions, windows that grow during a run,
and the wrapper for transformers.

Shapes: B sequences, T tokens, N tokens that are not cached, D model_dim, V vocab_size, E elements of a head.
"""

import math

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


def bigram_hash(ids, before, begins, rows):
    """Returns the table's row for each pair of a token and the previous one, hashed in wrapping int32; the last row
    at `begins`."""
    def int32(n):
        return (n + 2**31) % 2**32 - 2**31

    pairs = int32(36313 * ids) ^ int32(27191 * before)
    return (pairs % (rows - 1)).masked_fill(begins, rows - 1)


def smeared(x, before, gate, weight):
    """Adds to the embeddings x [B, N, D] those of the tokens before, weighted by a gate on a token's own first
    channels."""
    return x + weight * gate(x[..., :gate.in_features]).sigmoid() * before


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


class Documents(Positions):
    """Positions, and documents. With DOCUMENT_ATTENTION a query attends within its document, which begins with a row
    and with each BOS; SEGMENT_LIMIT applies to training alone."""

    def __init__(self, ids, mask, config):
        super().__init__(ids, mask)
        begins = self.real & (ids == config.bos_id) & (config.document_attention == "1")
        self.text = begins.cumsum(1)

    def seen(self, queries, window, parts=1):
        """Returns the attention mask [B, 1, queries, T] bool of the last `queries` tokens: a token attends to itself
        and to the tokens of its document that are at most `window` before it. With more `parts`, a token is that many
        consecutive elements: [B, 1, parts * queries, parts * T], and the window is one of elements."""
        def pairs(x):
            return x[:, -parts * queries:, None], x[:, None, :]

        def numbered(x):
            return (parts * x[..., None] + torch.arange(parts, device=x.device)).flatten(1)

        (query, key), (query_at, key_at) = pairs(numbered(self.index)), pairs(numbered(self.position))
        real, text = (x.repeat_interleave(parts, dim=1) for x in (self.real, self.text))
        own, other = pairs(text)
        seen = (key <= query) & real[:, None, :] & (query_at - key_at <= window) & (own == other)
        return (seen | (key == query))[:, None]


class WindowStage:
    """Schedule values in the stage of the config's record: window sizes, the number of previous tokens that a query
    attends to (`short`, `long`); RoPE frequencies in radians per position of the pairs that rotate, half of a head's
    elements (`frequencies` [E / 4]); the scale of attention scores (`scale`). head_dim: E of queries and keys."""

    def __init__(self, config, head_dim):
        schedules = [blocks_by_begin(text) for text in (config.short_window, config.long_window)]
        begins = sorted(set().union(*schedules))
        windows = [[schedule[max(b for b in schedule if b <= begin)] for schedule in schedules] for begin in begins]
        stage = config.train_gpt["stage"]
        trained = windows[:stage + 1]  # up to this stage
        short, long = trained[-1]
        if stage == len(windows):  # the stage after the last step, for evaluation
            long = config.final_long_window
        self.short, self.long = config.window_block * short, config.window_block * long
        self.frequencies = torch.tensor(1 / config.rope_base) ** torch.linspace(0, 1, head_dim // 4)
        self.scale = config.attention_scale or head_dim ** -0.5
        if config.window_yarn:
            for (_, before), (_, after) in zip(trained, trained[1:]):
                self.stretch(before / after, config.window_block * before)

    def stretch(self, ratio, window):
        """Applies YaRN for a window that was `window` tokens, `ratio` times the new one: frequencies with less than
        one period in the old window are multiplied by `ratio`, frequencies with more than 32 periods are unchanged."""
        kept = ((window * self.frequencies / (2 * math.pi) - 1) / 31).clamp(0, 1)
        self.frequencies = self.frequencies * (ratio + kept * (1 - ratio))
        self.scale *= 1 + 0.2 * math.log(1 / ratio)

    def angles(self, positions):
        """Returns the angles, fp32 [..., E / 4], at positions [...]."""
        return positions[..., None].float() * self.frequencies.to(positions.device)


def blocks_by_begin(text):
    """Parses SHORT_WINDOW or LONG_WINDOW, "3,7@735,11@1470": window in blocks, by first step or fraction of the run."""
    entries = (entry.partition("@") for entry in text.split(","))
    return {float(begin or 0): int(blocks) for blocks, _, begin in entries}


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
