#include "model/block.h"

#include "ops/mlp/mlp.h"
#include "ops/norm/linear_residual_norm.h"
#include "ops/pad.h"

namespace tg {

Blocks::Blocks(const ModelConfig& config, const Plan& plan, const ComputeSizes& sizes,
               const ParameterTable& table, const WeightCopies& weights,
               ActivationRecompute recompute)
    : plan_(plan),
      table_(table),
      weights_(weights),
      attention_(config, plan, sizes, table),
      recompute_(recompute),
      dim_(config.model_dim),
      padded_dim_(sizes.dim),
      negative_slope_(config.mlp_negative_slope) {}

at::Tensor Blocks::widened(const at::Tensor& parameter) const {
  return pad_last(parameter, padded_dim_);
}

Blocks::Mix Blocks::mix(const Visit& visit) const {
  const auto mix = table_[plan_.block(visit).mix];
  const auto shares = mix.dim() == 2 ? widened(mix) : mix;
  if (!visit.skip.weights) return {shares, {}};
  const auto weight = widened(table_[visit.skip.weights][visit.skip.row]);
  if (visit.skip.slot) return {shares, weight};
  return {at::stack({shares[0] * (1 + weight), shares[1].expand_as(weight)}), {}};
}

at::Tensor Blocks::update_share(const Gate& gate, const at::Tensor& x) const {
  const Weight weight{widened(table_[gate.weight]), {}};
  return (linear(x.detach(), weight) + table_[gate.bias]).sigmoid().to(x.scalar_type());
}

Stream Blocks::visit(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const bool recomputes = recompute_ == ActivationRecompute::block && at::GradMode::is_enabled();
  auto out =
      recomputes
          ? recomputed([this, &visit, pass](const Stream& from) { return run(visit, from, pass); },
                       in)
          : run(visit, in, pass);
  if (out.branch.defined())
    out.branch_gradient_scaling = weights_.of(visit, pass.fp8).down.fp8.output_gradient;
  return out;
}

Stream Blocks::run(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const auto& weights = weights_.of(visit, pass.fp8);
  const auto [shares, skip_weight] = mix(visit);
  const auto entry = residual_norm({.x = in.x,
                                    .branch = in.branch,
                                    .skip = in.skip,
                                    .skip_weight = skip_weight,
                                    .x0 = in.x0,
                                    .mix = shares,
                                    .channels = dim_,
                                    .normed = attention_.input(visit, weights, in, pass),
                                    .y_scaling = weights.qkv.fp8.input,
                                    .branch_gradient_scaling = in.branch_gradient_scaling},
                                   visit.norm_scale, /*keep_sum=*/visit.keep_input.has_value());

  const auto attended = attention_.forward(visit, entry.y, entry.row_scale, weights, in, pass);
  const auto x = pass.scored_rows(entry.x, visit).contiguous();
  const auto middle =
      linear_residual_norm(attended.y, weights.out,
                           {.x = x,
                            .channels = dim_,
                            .normed = mlp_input(x, weights.up, weights.down),
                            .y_scaling = weights.up.fp8.input,
                            .branch_gradient_scaling = weights.out.fp8.output_gradient},
                           visit.norm_scale, attended.y_dots);
  const bool light = recompute_ == ActivationRecompute::light;
  const auto branch =
      mlp(middle.y, weights.up, weights.down, negative_slope_, light, middle.row_scale);

  Stream out{.x0 = entry.x0,
             .x = middle.x,
             .branch = branch,
             .first_v = attended.first_v,
             .input = entry.sum};
  if (const auto& gate = plan_.block(visit).update_gate; gate.weight) {
    out.x = x + update_share(gate, x) * (middle.x + branch - x);
    out.branch.reset();
  }
  return out;
}

}  // namespace tg
