#pragma once
// The model's architecture, with every switch in which the record and the speedrun differ.
#include <cstdint>
#include <vector>

#include "config/choices.h"
#include "config/limits.h"

namespace tg {

struct ModelConfig {
  std::int64_t vocab_size = 1024;
  std::int64_t num_layers = 11;
  std::int64_t num_heads = 8;
  std::int64_t num_kv_heads = 4;
  std::int64_t model_dim = 512;
  double mlp_mult = 3.0;
  double mlp_negative_slope = 0.5;
  bool tie_embeddings = true;
  double rope_base = 1e4;
  std::int64_t rope_dims = 16;
  double logit_softcap = 30;
  double qk_gain_init = 1.5;
  std::int64_t bigram_vocab_size = 2048;
  std::int64_t bigram_dim = 128;
  std::int64_t xsa_last_n = 4;
  bool ln_scale = true;
  bool ve_enabled = true;
  std::int64_t ve_dim = 128;
  std::vector<std::int64_t> ve_layers = {9, 10};
  bool dtg_enabled = false;
  bool gated_attention = false;
  ValueResidual value_residual = ValueResidual::off;
  std::int64_t mtp_num_heads = 0;
  double mtp_loss_weight = 0.2;
  bool unet_skips = true;
  bool smear_gate = true;
  bool layer_scales = true;
  ResidMix resid_mix = ResidMix::vector;

  template <class V>
  void visit(V&& v) {
    list(*this, v);
  }
  template <class V>
  void visit(V&& v) const {
    list(*this, v);
  }

 private:
  template <class Self, class V>
  static void list(Self& s, V& v) {
    v("vocab_size", s.vocab_size, within(2, most_parts), "tokens in the vocabulary");
    v("num_layers", s.num_layers, within(1, most_parts), "blocks");
    v("num_heads", s.num_heads, within(1, most_parts), "query heads of a block");
    v("num_kv_heads", s.num_kv_heads, within(1, most_parts),
      "key and value heads; divides NUM_HEADS");
    v("model_dim", s.model_dim, within(1, most_channels), "channels; a multiple of NUM_HEADS");
    v("mlp_mult", s.mlp_mult, Limit{.low = 0, .high = 1024, .low_open = true},
      "hidden channels of the MLP as a multiple of MODEL_DIM");
    v("mlp_negative_slope", s.mlp_negative_slope, within(-1000, 1000),
      "slope of the leaky ReLU; 0: ReLU, squared");
    v("tie_embeddings", s.tie_embeddings, anything, "the head is the token table");
    v("rope_base", s.rope_base, above(0), "base of the rotary frequencies");
    v("rope_dims", s.rope_dims, within(0, most_channels),
      "rotated channels of a head; 0: all of them");
    v("logit_softcap", s.logit_softcap, above(0), "c in c tanh(z / c)");
    v("qk_gain_init", s.qk_gain_init, at_least(0), "initial gain of each query head; 0: no gain");
    v("bigram_vocab_size", s.bigram_vocab_size, within(0, 1 << 30),
      "rows of the bigram table; 0: none");
    v("bigram_dim", s.bigram_dim, within(1, most_channels), "channels of the bigram table");
    v("xsa_last_n", s.xsa_last_n, within(0, most_parts),
      "last blocks that subtract their own value");
    v("ln_scale", s.ln_scale, anything, "divide the normed input of block i by the root of i + 1");
    v("ve_enabled", s.ve_enabled, anything, "value embedding");
    v("ve_dim", s.ve_dim, within(1, most_channels), "channels of the value embedding");
    v("ve_layers", s.ve_layers, anything, "blocks that add the value embedding");
    v("dtg_enabled", s.dtg_enabled, anything, "gate that lets a token pass by a block");
    v("gated_attention", s.gated_attention, anything, "gate on each head's output");
    v("value_residual", s.value_residual, anything,
      "mix the first block's values into the others'");
    v("mtp_num_heads", s.mtp_num_heads, within(0, most_parts), "heads that predict further tokens");
    v("mtp_loss_weight", s.mtp_loss_weight, at_least(0), "weight of their mean loss");
    v("unet_skips", s.unet_skips, anything,
      "skips from the first half of the blocks to the second");
    v("smear_gate", s.smear_gate, anything, "mix each token's input with the one before");
    v("layer_scales", s.layer_scales, anything, "learned scales of attention and MLP outputs");
    v("resid_mix", s.resid_mix, anything,
      "shares of stream and first input: by channel or by block");
  }
};

}  // namespace tg
