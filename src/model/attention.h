#pragma once
#include <ATen/ATen.h>

#include "config/settings.h"
#include "model/inference.h"
#include "model/parameters.h"
#include "model/weights.h"
#include "ops/attention/qk_norm_rope.h"
#include "ops/attention/rope.h"
#include "ops/norm/input_dots.h"
#include "ops/norm/residual_norm.h"

namespace tg {

// Attention of one layer with the gains, gates and value residual whose parameters the table has.
class Attention {
 public:
  Attention(const ModelConfig& config, const ComputeSizes& sizes, const ParameterTable& table,
            std::int64_t layer);

  struct Output {
    at::Tensor y;         // [B, T, heads·hd], before the output projection
    at::Tensor first_v;   // [B, T, KV, hd], for the next layer; undefined without a value residual
    InputDotsPtr y_dots;  // for the backward pass of the output projection
  };
  // x [B, T, D] normalised, or still to be so by row_scale (ResidualNorm); value_embedding [B, T,
  // KV·hd] or undefined; first_v of the previous layer's output, undefined in layer 0. `rope_table`
  // has the rows of x's positions.
  Output forward(const at::Tensor& x_btd, const at::Tensor& row_scale, const LayerWeights& weights,
                 const RopeTable& rope_table, const at::Tensor& value_embedding,
                 const at::Tensor& first_v, const InferencePass& pass = {}) const;
  // The form in which forward() with these takes the normed rows of x.
  NormedRows input(const at::Tensor& x_btd, const LayerWeights& weights,
                   const RopeTable& rope_table, const at::Tensor& value_embedding,
                   const at::Tensor& first_v, const InferencePass& pass) const;

 private:
  QkvInputs inputs(const at::Tensor& row_scale, const at::Tensor& value_embedding,
                   const at::Tensor& first_v) const;
  at::Tensor first_weight(const at::Tensor& first_v) const;
  at::Tensor own_values(const at::Tensor& embedding, const at::Tensor& first_v) const;
  at::Tensor attend(const Qkv& heads, const InferencePass& pass, const InputDotsPtr& y_dots) const;

  std::int64_t heads_, kv_heads_, head_dim_, padded_dim_;
  bool exclusive_;
  at::Tensor q_gain_, gate_weight_, gate_bias_, value_lambdas_, value_blend_;
};

}  // namespace tg
