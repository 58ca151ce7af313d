#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/leaky_relu_squared.h"
#include "ops/rms_norm.h"

namespace tg {

namespace {

// x + scale·y; without a scale, x + y.
at::Tensor add_scaled(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& y) {
  return scale.defined() ? at::addcmul(x, scale.to(x.scalar_type()), y) : x + y;
}

}  // namespace

Block::Block(const ModelConfig& config, const ParameterTable& table, std::int64_t layer)
    : attention_(config, table, layer),
      norm_scale_(config.ln_scale ? 1.0 / std::sqrt(static_cast<double>(layer + 1)) : 1.0),
      negative_slope_(config.mlp_negative_slope) {
  const auto find = [&](const char* name) {
    return table.find(fmt::format("blocks.{}.{}", layer, name));
  };
  resid_mix_ = find("resid_mix");
  attn_scale_ = find("attn_scale");
  mlp_scale_ = find("mlp_scale");
  dtg_weight_ = find("dtg_gate.weight");
  dtg_bias_ = find("dtg_gate.bias");
}

at::Tensor Block::scaled_norm(const at::Tensor& x) const {
  const auto y = rms_norm(x);
  return norm_scale_ == 1.0 ? y : y * norm_scale_;
}

Block::Output Block::forward(const at::Tensor& x_btd, const at::Tensor& x0_btd,
                             const LayerWeights& weights, const RopeTable& rope_table,
                             const at::Tensor& value_embedding, const at::Tensor& first_v) const {
  const auto mix = resid_mix_.to(x_btd.scalar_type());
  const auto x_in = at::addcmul(mix[0] * x_btd, mix[1], x0_btd);

  const auto attended =
      attention_.forward(scaled_norm(x_in), weights, rope_table, value_embedding, first_v);
  auto x = add_scaled(x_in, attn_scale_, attended.y);

  const auto activation = leaky_relu_squared(linear(scaled_norm(x), weights.up), negative_slope_);
  x = add_scaled(x, mlp_scale_, linear(activation, weights.down));

  if (dtg_weight_.defined()) {
    const auto dtype = x.scalar_type();
    const auto gate =
        at::linear(x_in.detach(), dtg_weight_.to(dtype), dtg_bias_.to(dtype)).sigmoid();
    x = x_in + gate * (x - x_in);
  }
  return {x, attended.v};
}

}  // namespace tg
