#include "model/block.h"

#include <cassert>

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

at::Tensor Blocks::mix(const Visit& visit) const {
  const auto mix = table_[plan_.block(visit).mix];
  return mix.dim() == 2 ? widened(mix) : mix;
}

Blocks::SkipShares Blocks::skip_shares(const Visit& visit) const {
  const auto& [weights, gates, row, slot] = visit.skip;
  const auto weight = widened(table_[weights][row]);
  if (!gates) return {{}, weight};
  const auto share = widened(table_[gates][row]).sigmoid();
  return {share, (1 - share) * weight};
}

at::Tensor Blocks::update_share(const Gate& gate, const at::Tensor& x) const {
  const Weight weight{widened(table_[gate.weight]), {}};
  return (linear(x.detach(), weight) + table_[gate.bias]).sigmoid().to(x.scalar_type());
}

VisitKernels Blocks::choose_kernels(const Visit& visit, const at::Tensor& x,
                                    const PassInputs& pass) const {
  const auto& weights = weights_.of(visit, pass.fp8);
  const auto qkv = attention_.choose_qkv(visit, weights, x, pass);
  const auto mlp = choose_mlp(x, weights.up, weights.down);
  const auto feeds = mlp_input(mlp);
  return {.qkv = qkv,
          .out = choose_linear_residual_norm(x, weights.out, feeds),
          .mlp = mlp,
          .attention_input = attention_.input(visit, pass, qkv),
          .mlp_input = feeds};
}

NormOptions Blocks::norm(const Visit& visit, NormedForm form, const Weight& weight) const {
  return {.scale = visit.norm_scale, .channels = dim_, .form = form, .rounding = weight.fp8.input};
}

at::Tensor Blocks::mlp(const NormedInput& x, const BlockWeights& weights, Kernel kernel) const {
  const bool light = recompute_ == ActivationRecompute::light;
  return tg::mlp(x, weights.up, weights.down, negative_slope_, light, kernel);
}

Stream Blocks::visit(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const auto run = [this, &visit, pass](const Stream& from) {
    return visit.lanes.residual ? run_lanes(visit, from, pass) : this->run(visit, from, pass);
  };
  const bool recomputes = recompute_ == ActivationRecompute::block && at::GradMode::is_enabled();
  return recomputes ? recomputed(run, in) : run(in);
}

MixTerms Blocks::entry(const Visit& visit, const Stream& in) const {
  auto terms = in.lanes[0];
  auto mix = this->mix(visit);
  if (visit.skip.weights) {
    const auto [x, skip] = skip_shares(visit);
    if (visit.skip.slot) {
      terms.push_back(x.defined() ? MixTerm{.tensor = in.skip, .shares = at::stack({x, skip})}
                                  : MixTerm{.tensor = in.skip, .weight = skip});
    } else {
      // x itself is the skip: m0 has its factor, or where x goes on before the mix each term.
      const auto factor = skip + (x.defined() ? x : at::ones_like(skip));
      if (visit.lanes.residual) {
        for (auto& term : terms)
          term.weight = term.weight.defined() ? factor * term.weight : factor;
      } else {
        mix = at::stack({mix[0] * factor, mix[1].expand_as(factor)});
      }
    }
  }
  terms.push_back({.tensor = in.x0, .shares = mix});
  return terms;
}

Stream Blocks::run(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const auto& weights = weights_.of(visit, pass.fp8);
  const auto kernels = choose_kernels(visit, in.x0, pass);
  const auto entry =
      residual_norm(this->entry(visit, in), norm(visit, kernels.attention_input, weights.qkv),
                    /*keep=*/visit.keep_input ? in.lanes[0].size() : 0);
  const auto attended = attention_.forward(visit, entry.y, weights, in, pass, kernels.qkv);
  const auto x = pass.scored_rows(entry.x, visit).contiguous();
  const auto middle =
      linear_residual_norm(attended.y, weights.out, x, norm(visit, kernels.mlp_input, weights.up),
                           attended.y_dots, kernels.out);
  const auto branch = mlp(middle.y, weights, kernels.mlp);

  Stream out{.x0 = entry.x0, .first_v = attended.first_v, .input = entry.sum};
  if (const auto& gate = plan_.block(visit).update_gate; gate.weight)
    out.lanes = {{{.tensor = x + update_share(gate, x) * (middle.x + branch - x)}}};
  else
    out.lanes = {{{.tensor = middle.x},
                  {.tensor = branch, .gradient_scaling = weights.down.fp8.output_gradient}}};
  return out;
}

Stream Blocks::run_lanes(const Visit& visit, const Stream& in, const PassInputs& pass) const {
  const auto& weights = weights_.of(visit, pass.fp8);
  assert(!visit.keep_input);
  const auto kernels = choose_kernels(visit, in.x0, pass);
  const auto first = entry(visit, in);
  const auto attends = residual_norm(first, norm(visit, kernels.attention_input, weights.qkv),
                                     /*keep=*/first.size() - 1);  // with the skip, before the mix
  const auto attended = attention_.forward(visit, attends.y, weights, in, pass, kernels.qkv);
  auto second = in.lanes.back();
  for (auto& term : second) term.tensor = pass.scored_rows(term.tensor, visit);
  const auto feeds = residual_norm(second, norm(visit, kernels.mlp_input, weights.up));

  const auto residual = table_[visit.lanes.residual][visit.lanes.row],
             post = table_[visit.lanes.post][visit.lanes.row];
  const MixTerm attention{.tensor = linear(attended.y, weights.out)},
      mlp{.tensor = this->mlp(feeds.y, weights, kernels.mlp)};
  Stream out{.x0 = attends.x0, .first_v = attended.first_v};
  const auto add_lane = [&](std::int64_t k, const at::Tensor& lane) {
    out.lanes.push_back({{.tensor = lane, .weight = residual[k]},
                         {.tensor = attention.tensor, .weight = post[0][k]},
                         {.tensor = mlp.tensor, .weight = post[1][k]}});
  };
  add_lane(0, pass.scored_rows(attends.sum, visit));
  add_lane(1, feeds.x);
  return out;
}

}  // namespace tg
