#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

#include "ops/mlp/mlp.h"
#include "ops/norm/residual_norm.h"
#include "ops/pad.h"

namespace tg {

const at::Tensor& Residual::add_branch() {
  if (branch.defined()) {
    x = branch_scale.defined() ? at::addcmul(x, branch_scale.to(x.scalar_type()), branch)
                               : x + branch;
  }
  branch = branch_scale = at::Tensor();
  return x;
}

Block::Block(const ModelConfig& config, const ComputeSizes& sizes, const ParameterTable& table,
             std::int64_t layer)
    : attention_(config, sizes, table, layer),
      dim_(config.model_dim),
      padded_dim_(sizes.dim),
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

at::Tensor Block::widened(const at::Tensor& parameter) const {
  return pad_last(parameter, padded_dim_);
}

Residual Block::forward(const Residual& in, const Skip& skip, at::Tensor* previous_output,
                        const LayerWeights& weights, const RopeTable& rope_table,
                        const at::Tensor& value_embedding, const InferencePass& pass) const {
  const auto entry = residual_norm({.x = in.x,
                                    .branch = in.branch,
                                    .branch_scale = in.branch_scale,
                                    .skip = skip.x,
                                    .skip_weight = skip.weight,
                                    .x0 = in.x0,
                                    .mix = resid_mix_.dim() == 2 ? widened(resid_mix_) : resid_mix_,
                                    .channels = dim_},
                                   norm_scale_, /*keep_sum=*/previous_output != nullptr);
  if (previous_output != nullptr) *previous_output = entry.sum;

  const auto attended =
      attention_.forward(entry.y, weights, rope_table, value_embedding, in.first_v, pass);
  const auto x = pass.rows(entry.x).contiguous();
  const auto middle = residual_norm(
      {.x = x, .branch = attended.y, .branch_scale = widened(attn_scale_), .channels = dim_},
      norm_scale_, /*keep_sum=*/false);
  Residual out{middle.x, mlp(middle.y, weights.up, weights.down, negative_slope_),
               widened(mlp_scale_), entry.x0, attended.first_v};

  if (dtg_weight_.defined()) {
    const auto dtype = out.x.scalar_type();
    const auto gate =
        at::linear(x.detach(), widened(dtg_weight_).to(dtype), dtg_bias_.to(dtype)).sigmoid();
    out.x = x + gate * (out.add_branch() - x);
  }
  return out;
}

}  // namespace tg
