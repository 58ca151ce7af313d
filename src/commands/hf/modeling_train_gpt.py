"""train_gpt's model for transformers: AutoModelForCausalLM.from_pretrained(DIR, trust_remote_code=True).

TrainGpt is plain PyTorch; the two classes at the end wrap it. The config's attributes are train_gpt's model
settings in lower case, and train_seq_len. generate() caches the keys and values of each layer call (looped blocks are
called several times); with use_cache=False it recomputes all tokens. Encoding text, if the run had a tokenizer:

    import sentencepiece
    tokenizer = sentencepiece.SentencePieceProcessor(model_file="DIR/tokenizer.model")
    ids = torch.tensor([[tokenizer.bos_id(), *tokenizer.encode("Once upon a time")]])
    print(tokenizer.decode(model.generate(ids, max_new_tokens=50)[0].tolist()))

Shapes: B sequences, T tokens, D model_dim, V vocab_size, E elements of a head.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .train_gpt_common import CausalLM, Config, Mlp, Positions, bigram_hash, cached_tokens, rms_norm, softcapped


def rope(x, bases, dims, positions):
    """Rotates the pairs (k, k + dims / 2) of each head's first `dims` elements. x [B, T, heads, E]; bases [B];
    positions [B, T]."""
    frequency = bases[:, None] ** -(torch.arange(0, dims, 2, device=x.device) / dims)
    angle = positions[..., None].float() * frequency[:, None]
    cos, sin = (table[:, :, None].to(x.dtype) for table in (angle.cos(), angle.sin()))  # [B, T, 1, dims / 2]
    x1, x2, rest = x.split([dims // 2, dims // 2, x.shape[-1] - dims], dim=-1)
    return torch.cat([x1 * cos + x2 * sin, x2 * cos - x1 * sin, rest], dim=-1)


def rope_base(length, config, dims):
    """Returns the base by ROPE_YARN: it grows beyond 1024 tokens (auto), beyond the training sequences' length (1), or
    never (0). Rows of up to ROPE_LONGEST tokens take the training base."""
    trained = {"auto": 1024, "0": 0, "1": config.train_seq_len}[config.rope_yarn]
    length = max(length, getattr(config, "rope_longest", config.train_seq_len))
    if trained == 0 or length <= trained or dims <= 2:
        return config.rope_base
    return config.rope_base * (length / trained) ** (dims / (dims - 2))


def block_order(config, loops):
    """Returns the blocks in the order of a pass, with LOOP_START to LOOP_END repeated `loops` times more. The first
    half of the entries is the encoder, which pushes the skips that the second half pops."""
    blocks = list(range(config.num_layers))
    begin, end = config.loop_start, config.loop_end + 1
    return blocks[:begin] + blocks[begin:end] * (loops + 1) + blocks[end:] if loops else blocks


def loops_in_use(config):
    """Returns NUM_LOOPS if the stage in the model's record has loops, else 0."""
    return config.num_loops if config.train_gpt["stage"] > 0 else 0


class Places(Positions):
    """Positions, and segments of attention. With DOCUMENT_ATTENTION a segment begins with a row, with each BOS and,
    counted from these, every segment_limit tokens."""

    def __init__(self, ids, mask, config):
        super().__init__(ids, mask)
        documents, dims = config.document_attention == "1", config.rope_dims or config.model_dim // config.num_heads
        longest = config.segment_limit if documents and config.segment_limit else ids.shape[1]  # longest context
        self.bases = torch.tensor([rope_base(min(count, longest), config, dims) for count in self.real.sum(1).tolist()],
                                  device=ids.device)
        self.begins, self.segment = self.first, None
        if documents:
            self.segment = self.position.masked_fill(~self.real | (ids != config.bos_id), 0).cummax(1).values
            if config.segment_limit:
                self.segment = self.position - (self.position - self.segment) % config.segment_limit
            self.begins = self.first | (self.segment.gather(1, self.before) != self.segment)
        self.causal = self.segment is None and bool(self.real.all())

    def of_previous(self, x):
        """Returns x [B, T, ...] of the previous token; the first token's value is arbitrary."""
        return x.gather(1, self.before.view(*self.before.shape, *[1] * (x.dim() - 2)).expand_as(x))

    def attention_mask(self, queries, window):
        """Returns the mask [B or 1, 1, queries, T] bool of the last `queries` tokens: a token attends within its
        segment to itself and the `window` - 1 tokens before it, or to all before it (window 0). None if that is plain
        causal attention, or one query that attends to all tokens."""
        keys = self.index.shape[1]
        if self.causal and (window == 0 or window >= keys) and queries in (1, keys):
            return None
        rows = slice(0, 1) if self.causal else slice(None)

        def pairs(x):
            return x[rows, -queries:, None], x[rows, None, :]

        (query, key), (query_at, key_at) = pairs(self.index), pairs(self.position)
        mask = (key <= query) & self.real[rows, None, :]
        if window:
            mask = mask & (query_at - key_at < window)
        if self.segment is not None:
            own, other = pairs(self.segment)
            mask = mask & (own == other)
        return (mask | (key == query))[:, None]


class ScaledEmbedding(nn.Module):
    """Embedding of `dim` columns, projected to `out` if these differ, times a learned scale."""

    def __init__(self, rows, dim, out):
        super().__init__()
        self.embed = nn.Embedding(rows, dim)
        self.proj = nn.Linear(dim, out, bias=False) if dim != out else nn.Identity()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, ids):
        return self.scale * self.proj(self.embed(ids))


class SmearGate(nn.Module):
    """Blends each token with the previous one; a document's first token with zeros."""

    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(dim))

    def forward(self, x, places):
        before = places.of_previous(x).masked_fill(places.begins[..., None], 0)
        return torch.lerp(x, before, self.gate.sigmoid())


class Attention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        dim, heads, kv_heads = config.model_dim, config.num_heads, config.num_kv_heads
        self.layer, self.config, self.head_dim = layer, config, dim // heads
        windows = config.attention_window  # one for all layers, or one for each
        self.window = windows[layer] if len(windows) > 1 else windows[0]
        self.c_q = nn.Linear(dim, dim, bias=False)
        self.c_k = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.c_v = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.q_gain = nn.Parameter(torch.ones(heads)) if config.qk_gain_init else None
        if config.head_gate == "biased":
            self.attn_gate = nn.Linear(dim, heads)
        elif config.head_gate in ("full", "sparse"):
            columns = dim if config.head_gate == "full" else config.gate_window
            self.attn_gate_w = nn.Parameter(torch.zeros(heads, columns))
        elif config.head_gate == "output":
            self.attn_gate_proj = nn.Linear(config.gate_window, heads, bias=False)
        if config.value_residual == "1":
            self.vr_lambda = nn.Parameter(torch.full((2,), 0.5))
        elif config.value_residual == "blend":
            self.value_blend = nn.Parameter(torch.tensor(0.5))

    def mix_values(self, v, first_v):
        """Blends the values with the first layer's values."""
        if self.config.value_residual == "1" and self.layer > 0:
            return self.vr_lambda[0] * first_v + self.vr_lambda[1] * v
        if self.config.value_residual == "blend":
            return torch.lerp(v, first_v, self.value_blend)
        return v

    def head_gate(self, x, queries):
        """Returns the gate of each head's output [B, T, heads], or None. queries: W_q·x [B, T, D]; x [B, T, D]."""
        config, window = self.config, self.config.gate_window
        if config.head_gate == "biased":
            return self.attn_gate(x).sigmoid()
        if config.head_gate == "full":
            return F.linear(x, self.attn_gate_w).sigmoid()
        if config.head_gate == "sparse":
            return (config.sparse_attn_gate_scale * F.linear(x[..., :window], self.attn_gate_w)).sigmoid()
        if config.head_gate == "output":
            source = queries if config.attn_out_gate_src == "q" else x
            return 2 * self.attn_gate_proj(source[..., :window]).sigmoid()
        return None

    def forward(self, x, value_embedding, first_v, places, cache, call):
        """x [B, T, D] normalised; value_embedding: of the values' shape, or 0; first_v: None in the first layer.
        places: positions of all tokens, of which x holds the last. cache: keys and values of the tokens before x, by
        layer call, or None."""
        config = self.config
        heads = (*x.shape[:2], -1, self.head_dim)
        queries = self.c_q(x)
        q, k = rms_norm(queries.view(heads)), rms_norm(self.c_k(x).view(heads))
        v = (self.c_v(x) + value_embedding).view(heads)
        first_v = v if first_v is None else first_v
        v = self.mix_values(v, first_v)
        # Keys are cached before RoPE, since its base depends on the number of tokens so far.
        all_k, all_v = (k, v) if cache is None else cached(cache, call, k, v)
        count, dims = x.shape[1], config.rope_dims or self.head_dim
        q = rope(q, places.bases, dims, places.position[:, -count:])
        all_k = rope(all_k, places.bases, dims, places.position)
        if self.q_gain is not None:
            q = q * self.q_gain[:, None]
        # GQA: each key/value head serves `group` consecutive query heads.
        group = config.num_heads // config.num_kv_heads
        all_k, all_v, v = (part.repeat_interleave(group, dim=2) for part in (all_k, all_v, v))
        mask = places.attention_mask(count, self.window)
        y = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, all_k, all_v)), mask,
                                           is_causal=mask is None and count == all_k.shape[1]).transpose(1, 2)
        if self.layer >= config.num_layers - config.xsa_last_n:
            # Exclusive self-attention: removes the component along the token's own value.
            unit = F.normalize(v, dim=-1, eps=1e-12)
            y = y - (y * unit).sum(-1, keepdim=True) * unit
        gate = self.head_gate(x, queries)
        if gate is not None:
            y = y * gate[..., None]
        return self.proj(y.flatten(2)), first_v


def cached(cache, call, *parts):
    """Appends keys and values [B, T, heads, E] to the cache and returns all tokens' keys and values. transformers'
    caches have heads before tokens."""
    return (part.transpose(1, 2) for part in cache.update(*(part.transpose(1, 2) for part in parts), call))


class Block(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        dim = config.model_dim
        self.norm_scale = 1 / math.sqrt(layer + 1) if config.ln_scale else 1.0
        self.resid_mix = nn.Parameter(torch.ones((2, dim) if config.resid_mix == "vector" else 2))
        self.attn, self.mlp = Attention(config, layer), Mlp(config)
        self.attn_scale = nn.Parameter(torch.ones(dim)) if config.layer_scales else 1.0
        self.mlp_scale = nn.Parameter(torch.ones(dim)) if config.layer_scales else 1.0
        self.dtg_gate = nn.Linear(dim, 1) if config.dtg_enabled else None

    def mix(self, x, x0):
        return self.resid_mix[0] * x + self.resid_mix[1] * x0

    def attend(self, x, *context):
        """Returns attention's residual update, and the first layer's values."""
        y, first_v = self.attn(rms_norm(x) * self.norm_scale, *context)
        return self.attn_scale * y, first_v

    def transform(self, x):
        """Returns the MLP's residual update."""
        return self.mlp_scale * self.mlp(rms_norm(x) * self.norm_scale)

    def forward(self, x, x0, *context):
        """Returns the block's output and the first layer's values. x0: the first block's input."""
        x_in = self.mix(x, x0)
        y, first_v = self.attend(x_in, *context)
        x = x_in + y
        x = x + self.transform(x)
        if self.dtg_gate is not None:
            x = x_in + self.dtg_gate(x_in.detach()).sigmoid() * (x - x_in)
        return x, first_v

    def in_lanes(self, lanes, x0, residual, post, *context):
        """Returns both lanes, of which attention reads the first and the MLP the second, and the first layer's values.
        residual [2]: coefficient of each lane; post [2, 2]: coefficients of attention's and the MLP's output in each
        lane."""
        attended, first_v = self.attend(self.mix(lanes[0], x0), *context)
        transformed = self.transform(lanes[1])
        return [residual[k] * lanes[k] + post[0, k] * attended + post[1, k] * transformed for k in (0, 1)], first_v


class TrainGpt(nn.Module):
    """Token ids [B, T] int64 → softcapped logits [B, T, V] fp32. With a transformers cache, which holds the first
    tokens, only the logits of the other tokens. mask [B, T]: 0 at padding, whose logits repeat the logits of the
    token before it."""

    def __init__(self, config):
        super().__init__()
        vocab, dim, layers = config.vocab_size, config.model_dim, config.num_layers
        kv_dim = config.num_kv_heads * dim // config.num_heads
        self.config = config
        self.tok_emb = nn.Embedding(vocab, dim)
        if config.bigram_vocab_size:
            self.bigram = ScaledEmbedding(config.bigram_vocab_size, config.bigram_dim, dim)
        self.smear = SmearGate(dim) if config.smear == "channels" else None
        if config.smear == "gated":
            self.smear_gate = nn.Linear(config.gate_window, 1, bias=False)
            self.smear_lambda = nn.Parameter(torch.zeros(1))
        if config.unet_skips:
            skips = len(block_order(config, config.num_loops)) // 2
            self.skip_weights = nn.Parameter(torch.ones(skips, dim))
            self.skip_gates = nn.Parameter(torch.zeros(skips, dim)) if config.skip_gates_enabled else None
        if config.parallel_start_layer:
            self.parallel_resid_lambdas = nn.Parameter(torch.full((layers, 2), 1.1))
            self.parallel_post_lambdas = nn.Parameter(torch.ones(layers, 2, 2))
        self.blocks = nn.ModuleList(Block(config, i) for i in range(layers))
        self.ve_layers = config.ve_layers if config.ve_enabled else []
        if self.ve_layers:
            self.ve_shared = ScaledEmbedding(vocab, config.ve_dim, kv_dim)
            self.ve_layer_scales = nn.ParameterList(torch.ones(1) for _ in self.ve_layers)
        self.lm_head = None if config.tie_embeddings else nn.Linear(dim, vocab, bias=False)

    def embed(self, ids, places):
        x = self.tok_emb(ids)
        if self.config.bigram_vocab_size:
            pairs = ids, places.of_previous(ids), places.begins
            x = x + self.bigram(bigram_hash(*pairs, self.config.bigram_vocab_size))
        if self.config.smear == "gated":
            x = self.gated_smear(x, ids, places)
        x = rms_norm(x)
        return x if self.smear is None else self.smear(x, places)

    def gated_smear(self, x, ids, places):
        """Adds the previous token within a document, weighted by a gate on the token's own first channels."""
        weight = self.smear_lambda * self.smear_gate(x[..., :self.config.gate_window]).sigmoid()
        closed = (places.first | (ids == self.config.bos_id))[..., None]
        return x + weight * places.of_previous(x).masked_fill(closed, 0)

    def add_skip(self, x, skip, row):
        skip = self.skip_weights[row] * skip
        return x + skip if self.skip_gates is None else torch.lerp(skip, x, self.skip_gates[row].sigmoid())

    def run_blocks(self, x, ve, places, cache):
        """Returns the residual stream after all layer calls: its lanes, one or two."""
        config, order = self.config, block_order(self.config, loops_in_use(self.config))
        encoder, skips, lanes, x0, first_v, call = len(order) // 2, [], [x], x, None, 0
        for entry, i in enumerate(order):
            if entry >= encoder and 0 < config.parallel_start_layer <= i and len(lanes) == 1:
                lanes = lanes * 2
            skip = skips.pop() if entry >= encoder and skips else None
            if len(lanes) == 2 and i < config.parallel_start_layer:
                continue  # nothing reads its output
            if skip is not None:
                lanes[0] = self.add_skip(lanes[0], skip, entry - encoder)
            values = ve * self.ve_layer_scales[self.ve_layers.index(i)] if i in self.ve_layers else 0
            context, block = (values, first_v, places, cache, call), self.blocks[i]
            if len(lanes) == 2:
                lambdas = self.parallel_resid_lambdas[i], self.parallel_post_lambdas[i]
                lanes, first_v = block.in_lanes(lanes, x0, *lambdas, *context)
            else:
                lanes[0], first_v = block(lanes[0], x0, *context)
            if config.unet_skips and entry < encoder:
                skips.append(lanes[0])
            call += 1
        return lanes

    def final_states(self, ids, places, cache):
        known = cached_tokens(ids, cache)
        ve = self.ve_shared(ids[:, known:]) if self.ve_layers else None
        lanes = self.run_blocks(self.embed(ids, places)[:, known:], ve, places, cache)
        lane = {"mean": sum(lanes) / len(lanes), "attn": lanes[0], "mlp": lanes[-1]}
        return places.at_last_tokens(rms_norm(lane[self.config.parallel_final_lane]))

    def forward(self, ids, cache=None, mask=None):
        head = self.tok_emb.weight if self.lm_head is None else self.lm_head.weight
        z = F.linear(self.final_states(ids, Places(ids, mask, self.config), cache), head).float()
        return softcapped(z, self.config)


class TrainGptConfig(Config):
    @property
    def num_hidden_layers(self):
        """Number of layer calls: a cache holds keys and values of each."""
        return len(block_order(self, loops_in_use(self)))


class TrainGptForCausalLM(CausalLM):
    config_class = TrainGptConfig
    plain = TrainGpt
