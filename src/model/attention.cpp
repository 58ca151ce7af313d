#include "model/attention.h"

#include <fmt/format.h>

#include "config/derived.h"
#include "ops/attention/attention.h"
#include "ops/attention/qkv_proj_norm_rope.h"
#include "ops/attention/xsa.h"
#include "ops/kernels.h"
#include "ops/pad.h"

namespace tg {

Attention::Attention(const ModelConfig& config, const ComputeSizes& sizes,
                     const ParameterTable& table, std::int64_t layer)
    : heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      head_dim_(head_dim(config)),
      padded_dim_(sizes.dim),
      exclusive_(layer >= config.num_layers - config.xsa_last_n) {
  const auto find = [&](const char* name) {
    return table.find(fmt::format("blocks.{}.attn.{}", layer, name));
  };
  q_gain_ = find("q_gain");
  gate_weight_ = find("attn_gate.weight");
  gate_bias_ = find("attn_gate.bias");
  // A model has at most one of the two kinds of value residual.
  value_lambdas_ = find("vr_lambda");
  value_blend_ = find("value_blend");
}

at::Tensor Attention::first_weight(const at::Tensor& first_v) const {
  if (!first_v.defined()) return {};
  return value_lambdas_.defined() ? value_lambdas_[0] : value_blend_;
}
// The layer's own part of the values is weighted: in the projection by WeightCopies, here the
// embedding.
at::Tensor Attention::own_values(const at::Tensor& embedding, const at::Tensor& first_v) const {
  if (!first_v.defined() || !embedding.defined()) return embedding;
  const auto weight = value_lambdas_.defined() ? value_lambdas_[1] : 1 - value_blend_;
  return embedding * weight.to(embedding.scalar_type());
}

// With `pass.only` heads.q is of these positions alone.
at::Tensor Attention::attend(const Qkv& heads, const InferencePass& pass,
                             const InputDotsPtr& y_dots) const {
  const auto exclusive_v = exclusive_ ? pass.rows(heads.exclusive_v) : at::Tensor();
  if (!pass.only && pass.cache == nullptr)
    return causal_attention(heads.q, heads.k, heads.v,
                            {.channels = head_dim_,
                             .exclusive_v = exclusive_v,
                             .q_gradient = heads.q_gradient,
                             .out_dots = y_dots});
  auto k = heads.k, v = heads.v;
  if (pass.cache != nullptr) {
    const auto length = k.size(1);
    pass.cache->k.narrow(1, pass.cached, length).copy_(k);
    pass.cache->v.narrow(1, pass.cached, length).copy_(v);
    k = pass.cache->k.narrow(1, 0, pass.cached + length);
    v = pass.cache->v.narrow(1, 0, pass.cached + length);
  }
  const auto keys = pass.only ? pass.cached + pass.only->to : k.size(1);
  const auto y =
      causal_attention_of_last(heads.q, k.narrow(1, 0, keys), v.narrow(1, 0, keys), head_dim_);
  return exclusive_ ? exclusive_attention(y, exclusive_v) : y;
}

QkvInputs Attention::inputs(const at::Tensor& row_scale, const at::Tensor& value_embedding,
                            const at::Tensor& first_v) const {
  return {.heads = heads_,
          .kv_heads = kv_heads_,
          .q_gain = q_gain_,
          .value_embedding = value_embedding,
          .value_residual = value_lambdas_.defined() || value_blend_.defined(),
          .first_v = first_v,
          .first_weight = first_weight(first_v),
          .row_scale = row_scale,
          .channels = head_dim_};
}

NormedRows Attention::input(const at::Tensor& x_btd, const LayerWeights& weights,
                            const RopeTable& rope_table, const at::Tensor& value_embedding,
                            const at::Tensor& first_v, const InferencePass& pass) const {
  if (!use_hopper_kernels(x_btd) || pass.only || gate_weight_.defined()) return NormedRows::written;
  if (qkv_proj_norm_rope_reads_fp8(x_btd, weights.qkv, inputs({}, value_embedding, first_v),
                                   rope_table))
    return NormedRows::in_fp8;
  return weights.qkv.fp8.defined() || value_embedding.defined() ? NormedRows::written
                                                                : NormedRows::as_row_scale;
}

Attention::Output Attention::forward(const at::Tensor& x_btd, const at::Tensor& row_scale,
                                     const LayerWeights& weights, const RopeTable& rope_table,
                                     const at::Tensor& value_embedding, const at::Tensor& first_v,
                                     const InferencePass& pass) const {
  const auto in = inputs(row_scale, own_values(value_embedding, first_v), first_v);
  const auto heads = pass.only ? qkv_proj_norm_rope_of_queries(x_btd, weights.qkv, in, rope_table,
                                                               pass.only->from, pass.only->count())
                               : qkv_proj_norm_rope(x_btd, weights.qkv, in, rope_table);
  const auto y_dots = gate_weight_.defined() ? nullptr : std::make_shared<InputDots>();
  auto y = attend(heads, pass, y_dots);
  if (gate_weight_.defined()) {
    const Weight weight{pad_last(gate_weight_, padded_dim_), {}};
    const auto gate = (linear(pass.rows(x_btd), weight) + gate_bias_).sigmoid();
    y = y * gate.to(y.scalar_type()).unsqueeze(-1);
  }
  return {y.flatten(2, 3), heads.first_v, y_dots};
}

}  // namespace tg
