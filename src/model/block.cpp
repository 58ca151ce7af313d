#include "model/block.h"

#include <cassert>

#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/lanes_norm.h"
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

at::Tensor Blocks::mix(const Visit& visit) const {
  const auto mix = table_[plan_.block(visit).mix];
  return mix.dim() == 2 ? widened(mix) : mix;
}

at::Tensor Blocks::update_share(const Gate& gate, const at::Tensor& x) const {
  const Weight weight{widened(table_[gate.weight]), {}};
  return (linear(x.detach(), weight) + table_[gate.bias]).sigmoid().to(x.scalar_type());
}

VisitKernels Blocks::choose_kernels(const Visit& visit, const at::Tensor& x,
                                    const PassInputs& pass) const {
  const auto& weights = weights_.of(visit, pass.fp8);
  const auto qkv = attention_.choose_qkv(visit, weights, x, pass);
  const bool observed = pass.observer != nullptr, adapted = pass.loras != nullptr;
  const auto mlp = observed ? Kernel::aten : choose_mlp(x, weights.up, weights.down);
  const auto feeds = mlp_input(mlp);
  return {.qkv = qkv,
          .out = choose_linear_residual_norm(x, weights.out, feeds),
          .mlp = mlp,
          .attention_input =
              observed || adapted ? NormedForm::written : attention_.input(visit, pass, qkv),
          .mlp_input = feeds};
}

NormOptions Blocks::norm(const Visit& visit, NormedForm form, const Weight& weight) const {
  return {.scale = visit.norm_scale, .channels = dim_, .form = form, .rounding = weight.fp8.input};
}

at::Tensor Blocks::mlp(const Visit& visit, const NormedInput& x, const BlockWeights& weights,
                       const PassInputs& pass, Kernel kernel) const {
  if (pass.observer != nullptr) {
    pass.observe(Operand::up, visit.block, x);
    const auto activation = leaky_relu_squared(linear(x, weights.up), negative_slope_);
    pass.observe(Operand::down, visit.block, activation);
    return linear(activation, weights.down);
  }
  const bool light = recompute_ == ActivationRecompute::light;
  const auto y = tg::mlp(x, weights.up, weights.down, negative_slope_, light, kernel);
  return pass.loras != nullptr ? pass.loras->add_mlp(visit, y, x) : y;
}

Stream Blocks::visit(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const auto run = [this, &visit, pass](const Stream& from) {
    return visit.lanes.residual ? run_lanes(visit, from, pass) : this->run(visit, from, pass);
  };
  const bool recomputes = recompute_ == ActivationRecompute::block && at::GradMode::is_enabled();
  return recomputes ? recomputed(run, in) : run(in);
}

MixTerms Blocks::entry(const Visit& visit, const Stream& in) const {
  auto terms = in.terms;
  auto mix = this->mix(visit);
  if (StreamWeights::makes_skip(visit)) {
    terms.push_back({.tensor = in.skip, .shares = weights_.stream().skip(visit)});
  } else if (visit.skip.weights) {
    const auto weight = widened(table_[visit.skip.weights][visit.skip.row]);
    if (visit.skip.slot)
      terms.push_back({.tensor = in.skip, .weight = weight});
    else  // x itself: in m0
      mix = at::stack({mix[0] * (1 + weight), mix[1].expand_as(weight)});
  }
  terms.push_back({.tensor = in.x0, .shares = mix});
  return terms;
}

Stream Blocks::run(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const auto& weights = weights_.of(visit, pass.fp8);
  const auto kernels = choose_kernels(visit, in.x0, pass);
  const auto entry =
      residual_norm(this->entry(visit, in), norm(visit, kernels.attention_input, weights.qkv),
                    /*keep=*/visit.keep_input ? in.terms.size() : 0);
  const auto attended = attention_.forward(visit, entry.y, weights, in, pass, kernels.qkv);
  const auto x = pass.scored_rows(entry.x, visit).contiguous();
  const bool adapts = pass.loras != nullptr && pass.loras->adapts_out(visit);
  const auto adapted = adapts ? pass.loras->add_out(visit, x.clone(), attended.inner) : x;
  const auto middle = linear_residual_norm(attended.y, weights.out, adapted,
                                           norm(visit, kernels.mlp_input, weights.up),
                                           attended.y_dots, kernels.out);
  const auto branch = mlp(visit, middle.y, weights, pass, kernels.mlp);

  Stream out{.x0 = entry.x0, .first_v = attended.first_v, .input = entry.sum};
  if (const auto& gate = plan_.block(visit).update_gate; gate.weight)
    out.terms = {{.tensor = x + update_share(gate, x) * (middle.x + branch - x)}};
  else
    out.terms = {{.tensor = middle.x},
                 {.tensor = branch, .gradient_scaling = weights.down.fp8.output_gradient}};
  return out;
}

Stream Blocks::run_lanes(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  assert(!visit.keep_input);
  const auto& weights = weights_.of(visit, pass.fp8);
  const auto kernels = choose_kernels(visit, in.x0, pass);
  // Rows that are scored are taken of written ones.
  const auto mlp_input = pass.scored(visit) ? NormedForm::written : kernels.mlp_input;
  LaneTerms terms{.terms = in.terms,
                  .weights = in.lane_weights,
                  .skip = in.skip,
                  .x0 = in.x0,
                  .mix = mix(visit)};
  if (visit.skip.weights) terms.shares = weights_.stream().skip(visit);
  const auto entry = lanes_norm(terms, {norm(visit, kernels.attention_input, weights.qkv),
                                        norm(visit, mlp_input, weights.up)});
  const auto attended = attention_.forward(visit, entry.y[0], weights, in, pass, kernels.qkv);
  const auto scored = [&](const at::Tensor& x) { return pass.scored_rows(x, visit).contiguous(); };
  const auto feeds = pass.scored(visit) ? NormedInput(scored(entry.y[1].rows())) : entry.y[1];
  auto projected = linear(attended.y, weights.out);
  if (pass.loras != nullptr) projected = pass.loras->add_out(visit, projected, attended.inner);
  const auto term = [](const at::Tensor& branch, const Weight& of) {
    return MixTerm{.tensor = branch, .gradient_scaling = of.fp8.output_gradient};
  };
  return {.x0 = entry.x0,
          .terms = {{.tensor = scored(entry.lanes[0])},
                    {.tensor = scored(entry.lanes[1])},
                    term(projected, weights.out),
                    term(mlp(visit, feeds, weights, pass, kernels.mlp), weights.down)},
          .lane_weights = weights_.stream().lanes(visit),
          .first_v = attended.first_v};
}

}  // namespace tg
