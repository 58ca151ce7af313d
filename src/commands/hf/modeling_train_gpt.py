"""train_gpt's model for transformers: AutoModelForCausalLM.from_pretrained(DIR, trust_remote_code=True).

TrainGpt is plain PyTorch; the two classes at the end wrap it. The config's attributes are train_gpt's model
settings in lower case, and train_seq_len. There is no key and value cache: generate() computes every token
anew (generation_config.json says use_cache=false). Text to ids, where the run had a tokenizer:

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
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput


def rms_norm(x):
    return F.rms_norm(x.float(), x.shape[-1:], eps=1.1920929e-07).to(x.dtype)


def rope(x, base, dims):
    """Rotates the pairs (k, k + dims / 2) of each head's first `dims` elements. x [B, T, heads, E]."""
    frequency = base ** -(torch.arange(0, dims, 2, device=x.device) / dims)
    angle = torch.outer(torch.arange(x.shape[1], device=x.device).float(), frequency)
    cos, sin = (table[:, None].to(x.dtype) for table in (angle.cos(), angle.sin()))  # [T, 1, dims / 2]
    x1, x2, rest = x.split([dims // 2, dims // 2, x.shape[-1] - dims], dim=-1)
    return torch.cat([x1 * cos + x2 * sin, x2 * cos - x1 * sin, rest], dim=-1)


def rope_base(length, config, dims):
    """Beyond 1024 tokens the base grows. Rows shorter than in training take the base of training."""
    length = max(length, config.train_seq_len)
    if length <= 1024 or dims <= 2:
        return config.rope_base
    return config.rope_base * (length / 1024) ** (dims / (dims - 2))


def bigram_hash(ids, rows):
    """The table's row for each token and the one before: in wrapping int32; the last row for the first token."""
    def int32(n):
        return (n + 2**31) % 2**32 - 2**31

    pairs = int32(36313 * ids[:, 1:]) ^ int32(27191 * ids[:, :-1])
    return F.pad(pairs % (rows - 1), (1, 0), value=rows - 1)


def window_mask(length, window, device):
    """[T, T] bool, whether a query sees a key: of `window` tokens, its own the last. None: all before it (window 0)."""
    if window == 0 or window >= length:
        return None
    return torch.ones(length, length, dtype=torch.bool, device=device).tril().triu(1 - window)


class ScaledEmbedding(nn.Module):
    """A table of `dim` columns, projected to `out` where these differ, times a learned scale."""

    def __init__(self, rows, dim, out):
        super().__init__()
        self.embed = nn.Embedding(rows, dim)
        self.proj = nn.Linear(dim, out, bias=False) if dim != out else nn.Identity()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, ids):
        return self.scale * self.proj(self.embed(ids))


class SmearGate(nn.Module):
    """Mixes each token with the one before; the first with zeros."""

    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return torch.lerp(x, F.pad(x, (0, 0, 1, -1)), self.gate.sigmoid())


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
        self.attn_gate = nn.Linear(dim, heads) if config.gated_attention else None
        if config.value_residual == "1":
            self.vr_lambda = nn.Parameter(torch.full((2,), 0.5))
        elif config.value_residual == "blend":
            self.value_blend = nn.Parameter(torch.tensor(0.5))

    def mix_values(self, v, first_v):
        """The values with the first layer's."""
        if self.config.value_residual == "1" and self.layer > 0:
            return self.vr_lambda[0] * first_v + self.vr_lambda[1] * v
        if self.config.value_residual == "blend":
            return torch.lerp(v, first_v, self.value_blend)
        return v

    def forward(self, x, value_embedding, first_v):
        """x [B, T, D] normalised; value_embedding as the values or 0; first_v: None in the first layer."""
        config = self.config
        heads = (*x.shape[:2], -1, self.head_dim)
        q, k = self.c_q(x).view(heads), self.c_k(x).view(heads)
        v = (self.c_v(x) + value_embedding).view(heads)
        first_v = v if first_v is None else first_v
        v = self.mix_values(v, first_v)
        dims = config.rope_dims or self.head_dim
        base = rope_base(x.shape[1], config, dims)
        q, k = rope(rms_norm(q), base, dims), rope(rms_norm(k), base, dims)
        if self.q_gain is not None:
            q = q * self.q_gain[:, None]
        # Key and value heads each serve as many consecutive query heads.
        k, v = (part.repeat_interleave(config.num_heads // config.num_kv_heads, dim=2) for part in (k, v))
        mask = window_mask(x.shape[1], self.window, x.device)
        y = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)), mask, is_causal=mask is None)
        y = y.transpose(1, 2)
        if self.layer >= config.num_layers - config.xsa_last_n:
            # Exclusive self attention: without the part along the token's own value.
            unit = F.normalize(v, dim=-1, eps=1e-12)
            y = y - (y * unit).sum(-1, keepdim=True) * unit
        if self.attn_gate is not None:
            y = y * self.attn_gate(x).sigmoid()[..., None]
        return self.proj(y.flatten(2)), first_v


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = int(config.mlp_mult * config.model_dim)
        self.slope = config.mlp_negative_slope
        self.fc = nn.Linear(config.model_dim, hidden, bias=False)
        self.proj = nn.Linear(hidden, config.model_dim, bias=False)

    def forward(self, x):
        return self.proj(F.leaky_relu(self.fc(x), self.slope).square())


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

    def forward(self, x, x0, value_embedding, first_v):
        """→ the block's output and the first layer's values. x0: the first block's input."""
        x_in = self.resid_mix[0] * x + self.resid_mix[1] * x0
        y, first_v = self.attn(rms_norm(x_in) * self.norm_scale, value_embedding, first_v)
        x = x_in + self.attn_scale * y
        x = x + self.mlp_scale * self.mlp(rms_norm(x) * self.norm_scale)
        if self.dtg_gate is not None:
            x = x_in + self.dtg_gate(x_in.detach()).sigmoid() * (x - x_in)
        return x, first_v


class TrainGpt(nn.Module):
    """Token ids [B, T] int64 → softcapped logits [B, T, V] fp32."""

    def __init__(self, config):
        super().__init__()
        vocab, dim, layers = config.vocab_size, config.model_dim, config.num_layers
        kv_dim = config.num_kv_heads * dim // config.num_heads
        self.config = config
        self.tok_emb = nn.Embedding(vocab, dim)
        if config.bigram_vocab_size:
            self.bigram = ScaledEmbedding(config.bigram_vocab_size, config.bigram_dim, dim)
        self.smear = SmearGate(dim) if config.smear_gate else nn.Identity()
        if config.smear_gate_enabled:
            self.smear_gate = nn.Linear(config.gate_window, 1, bias=False)
            self.smear_lambda = nn.Parameter(torch.zeros(1))
        if config.unet_skips:
            self.skip_weights = nn.Parameter(torch.ones(layers // 2, dim))
        self.blocks = nn.ModuleList(Block(config, i) for i in range(layers))
        self.ve_layers = config.ve_layers if config.ve_enabled else []
        if self.ve_layers:
            self.ve_shared = ScaledEmbedding(vocab, config.ve_dim, kv_dim)
            self.ve_layer_scales = nn.ParameterList(torch.ones(1) for _ in self.ve_layers)
        self.lm_head = None if config.tie_embeddings else nn.Linear(dim, vocab, bias=False)

    def embed(self, ids):
        x = self.tok_emb(ids)
        if self.config.bigram_vocab_size:
            x = x + self.bigram(bigram_hash(ids, self.config.bigram_vocab_size))
        if self.config.smear_gate_enabled:
            x = self.gated_smear(x, ids)
        return self.smear(rms_norm(x))

    def gated_smear(self, x, ids):
        """Adds to each token a share of the one before, by a gate on its first channels, within a document."""
        share = self.smear_lambda * self.smear_gate(x[..., :self.config.gate_window]).sigmoid()
        return x + share * F.pad(x, (0, 0, 1, -1)) * (ids != self.config.bos_id)[..., None]

    def final_states(self, ids):
        x = x0 = self.embed(ids)
        ve = self.ve_shared(ids) if self.ve_layers else None
        first_v, skips = None, []
        # U-Net skips: the first half of the blocks pushes its outputs, the second half pops them.
        half = len(self.blocks) // 2 if self.config.unet_skips else 0
        for i, block in enumerate(self.blocks):
            if i >= half and skips:
                x = x + self.skip_weights[i - half] * skips.pop()
            values = ve * self.ve_layer_scales[self.ve_layers.index(i)] if i in self.ve_layers else 0
            x, first_v = block(x, x0, values, first_v)
            if i < half:
                skips.append(x)
        return rms_norm(x)

    def forward(self, ids):
        head = self.tok_emb.weight if self.lm_head is None else self.lm_head.weight
        z = F.linear(self.final_states(ids), head).float()
        return self.config.logit_softcap * torch.tanh(z / self.config.logit_softcap)


class TrainGptConfig(PretrainedConfig):
    model_type = "train_gpt"
    attribute_map = {"hidden_size": "model_dim", "num_hidden_layers": "num_layers",
                     "num_attention_heads": "num_heads", "num_key_value_heads": "num_kv_heads",
                     "max_position_embeddings": "train_seq_len"}


class TrainGptForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = TrainGptConfig
    base_model_prefix = "model"

    def __init__(self, config):
        super().__init__(config)
        self.model = TrainGpt(config)
        self.post_init()

    def get_input_embeddings(self):
        return self.model.tok_emb

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    def forward(self, input_ids, attention_mask=None, labels=None, **_):
        """labels: the input_ids, of which each is the target of the one before; -100 is no target."""
        if attention_mask is not None and not attention_mask[:, 0].all():
            raise ValueError("rows padded on the left: expected padding on the right, or rows of one length")
        logits = self.model(input_ids)
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)
