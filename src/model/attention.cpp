#include "model/attention.h"

#include <fmt/format.h>

#include "ops/attention.h"
#include "ops/rms_norm.h"
#include "ops/xsa.h"

namespace tg {

Attention::Attention(const ModelConfig& config, const ParameterTable& table, std::int64_t layer)
    : heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      exclusive_(layer >= config.num_layers - config.xsa_last_n) {
  const auto find = [&](const char* name) {
    return table.find(fmt::format("blocks.{}.attn.{}", layer, name));
  };
  q_gain_ = find("q_gain");
  gate_weight_ = find("attn_gate.weight");
  gate_bias_ = find("attn_gate.bias");
  vr_lambda_ = find("vr_lambda");
  value_blend_ = find("value_blend");
}

at::Tensor Attention::mix_values(const at::Tensor& v, const at::Tensor& first_v) const {
  const auto dtype = v.scalar_type();
  if (value_blend_.defined()) {
    const auto share = value_blend_.to(dtype);
    return (1 - share) * v + share * (first_v.defined() ? first_v : v);
  }
  if (vr_lambda_.defined() && first_v.defined()) {
    const auto lambda = vr_lambda_.to(dtype);
    return lambda[0] * first_v + lambda[1] * v;
  }
  return v;
}

Attention::Output Attention::forward(const at::Tensor& x_btd, const LayerWeights& weights,
                                     const RopeTable& rope_table, const at::Tensor& value_embedding,
                                     const at::Tensor& first_v) const {
  const auto dtype = x_btd.scalar_type();
  const auto qkv = linear(x_btd, weights.qkv).unflatten(-1, {heads_ + 2 * kv_heads_, -1});
  auto q = qkv.narrow(2, 0, heads_);
  auto k = qkv.narrow(2, heads_, kv_heads_);
  auto v = qkv.narrow(2, heads_ + kv_heads_, kv_heads_);
  if (value_embedding.defined()) v = v + value_embedding.view_as(v);
  const auto own_v = v;
  v = mix_values(own_v, first_v);

  q = rope(rms_norm(q), rope_table);
  k = rope(rms_norm(k), rope_table);
  if (q_gain_.defined()) q = q * q_gain_.to(dtype).unsqueeze(-1);

  auto y = causal_attention(q, k, v);
  if (exclusive_) y = exclusive_attention(y, v);
  if (gate_weight_.defined()) {
    const auto gate = at::linear(x_btd, gate_weight_.to(dtype), gate_bias_.to(dtype)).sigmoid();
    y = y * gate.unsqueeze(-1);
  }
  return {linear(y.flatten(2, 3), weights.out), own_v};
}

}  // namespace tg
