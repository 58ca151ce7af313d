#include "model/block.h"

#include <fmt/format.h>

#include <cmath>

#include "model/recompute.h"
#include "ops/fused.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/linear_residual_norm.h"
#include "ops/pad.h"

namespace tg {

const at::Tensor& Residual::add_branch() {
  if (branch.defined()) x = x + branch;
  branch = at::Tensor();
  branch_gradient_scaling = {};
  return x;
}

Block::Block(const ModelConfig& config, const ComputeSizes& sizes, const ParameterTable& table,
             std::int64_t layer, ActivationRecompute recompute)
    : attention_(config, sizes, table, layer),
      recompute_(recompute),
      dim_(config.model_dim),
      padded_dim_(sizes.dim),
      norm_scale_(config.ln_scale ? 1.0 / std::sqrt(static_cast<double>(layer + 1)) : 1.0),
      negative_slope_(config.mlp_negative_slope) {
  const auto find = [&](const char* name) {
    return table.find(fmt::format("blocks.{}.{}", layer, name));
  };
  resid_mix_ = find("resid_mix");
  dtg_weight_ = find("dtg_gate.weight");
  dtg_bias_ = find("dtg_gate.bias");
}

at::Tensor Block::widened(const at::Tensor& parameter) const {
  return pad_last(parameter, padded_dim_);
}

at::Tensor Block::mix(const Skip& skip) const {
  const auto mix = resid_mix_.dim() == 2 ? widened(resid_mix_) : resid_mix_;
  if (!skip.is_input()) return mix;
  return at::stack({mix[0] * (1 + skip.weight), mix[1].expand_as(skip.weight)});
}

Residual Block::forward(const Residual& in, const Skip& skip, at::Tensor* previous_output,
                        const LayerWeights& weights, const RopeTable& rope_table,
                        const at::Tensor& value_embedding, const InferencePass& pass) const {
  if (recompute_ == ActivationRecompute::block && at::GradMode::is_enabled())
    return run_recomputed(in, skip, previous_output, weights, rope_table, value_embedding);
  return run(in, skip, previous_output, weights, rope_table, value_embedding, pass);
}

Residual Block::run_recomputed(const Residual& in, const Skip& skip, at::Tensor* previous_output,
                               const LayerWeights& weights, const RopeTable& rope_table,
                               const at::Tensor& value_embedding) const {
  const bool keeps_previous = previous_output != nullptr;
  // x0 before x: where they are one tensor, autograd adds their gradients in the order in which it
  // would without this.
  const auto out = recomputed(
      [this, keeps_previous, &weights, rope_table,
       scaling = in.branch_gradient_scaling](const std::vector<at::Tensor>& from) {
        const Residual residual{.x = from[1],
                                .branch = from[4],
                                .x0 = from[0],
                                .first_v = from[6],
                                .branch_gradient_scaling = scaling};
        at::Tensor previous;
        const auto to = run(residual, {from[2], from[3]}, keeps_previous ? &previous : nullptr,
                            weights, rope_table, from[5], {});
        return std::vector<at::Tensor>{to.x, to.branch, to.x0, to.first_v, previous};
      },
      {in.x0, in.x, skip.x, skip.weight, in.branch, value_embedding, in.first_v});
  if (keeps_previous) *previous_output = out[4];
  return {.x = out[0],
          .branch = out[1],
          .x0 = out[2],
          .first_v = out[3],
          .branch_gradient_scaling = weights.down.fp8.output_gradient};
}

Residual Block::run(const Residual& in, const Skip& skip, at::Tensor* previous_output,
                    const LayerWeights& weights, const RopeTable& rope_table,
                    const at::Tensor& value_embedding, const InferencePass& pass) const {
  const auto entry = residual_norm(
      {.x = in.x,
       .branch = in.branch,
       .skip = skip.x,
       .skip_weight = skip.is_input() ? at::Tensor() : skip.weight,
       .x0 = in.x0,
       .mix = mix(skip),
       .channels = dim_,
       .normed = attention_.input(in.x, weights, rope_table, value_embedding, in.first_v, pass),
       .y_scaling = weights.qkv.fp8.input,
       .branch_gradient_scaling = in.branch_gradient_scaling},
      norm_scale_, /*keep_sum=*/previous_output != nullptr);
  if (previous_output != nullptr) *previous_output = entry.sum;

  const auto attended = attention_.forward(entry.y, entry.row_scale, weights, rope_table,
                                           value_embedding, in.first_v, pass);
  const auto x = pass.rows(entry.x).contiguous();
  const auto middle =
      linear_residual_norm(attended.y, weights.out,
                           {.x = x,
                            .channels = dim_,
                            .normed = mlp_input(x, weights.up, weights.down),
                            .y_scaling = weights.up.fp8.input,
                            .branch_gradient_scaling = weights.out.fp8.output_gradient},
                           norm_scale_, attended.y_dots);
  const bool light = recompute_ == ActivationRecompute::light;
  Residual out{middle.x,
               mlp(middle.y, weights.up, weights.down, negative_slope_, light, middle.row_scale),
               entry.x0, attended.first_v, weights.down.fp8.output_gradient};

  if (dtg_weight_.defined()) {
    const auto gate = (linear(x.detach(), {widened(dtg_weight_), {}}) + dtg_bias_).sigmoid();
    out.x = x + gate.to(x.scalar_type()) * (out.add_branch() - x);
  }
  return out;
}

}  // namespace tg
