#pragma once
#include <ATen/ATen.h>

#include "model/attention.h"

namespace tg {

// One transformer block:
//   h = m0·x + m1·x0
//   h += a·attention(rms(h)·s),  h += b·W_down(leaky(W_up·rms(h)·s)²),  s = 1/√(layer+1) with
//   LN_SCALE
// and with DTG the whole is gated token by token: x_in + σ(gate(x_in))·(h − x_in).
class Block {
 public:
  Block(const ModelConfig& config, const ParameterTable& table, std::int64_t layer);

  struct Output {
    at::Tensor x;  // [B, T, D]
    at::Tensor v;  // as Attention::Output::v
  };
  Output forward(const at::Tensor& x_btd, const at::Tensor& x0_btd, const LayerWeights& weights,
                 const RopeTable& rope_table, const at::Tensor& value_embedding,
                 const at::Tensor& first_v) const;

 private:
  at::Tensor scaled_norm(const at::Tensor& x) const;

  Attention attention_;
  double norm_scale_, negative_slope_;
  at::Tensor resid_mix_, attn_scale_, mlp_scale_, dtg_weight_, dtg_bias_;
};

}  // namespace tg
