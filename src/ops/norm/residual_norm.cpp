#include "ops/norm/residual_norm.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include "ops/norm/fused_residual_norm.h"
#include "ops/norm/mix_norm.h"
#include "ops/norm/residual_norm_kernel.h"
#include "ops/norm/rms_norm.h"

namespace tg {

namespace {

// Matches the terms to the form of one lane that the kernels support; nullopt if they do not match.
std::optional<LaneTerms> match_one_lane(const MixTerms& terms) {
  LaneTerms lane{.lanes = 1};
  auto next = terms.begin();
  while (lane.terms.size() < 2 && next != terms.end() && next->is_plain())
    lane.terms.push_back(*next++);
  if (lane.terms.empty()) return std::nullopt;
  const auto take = [&](at::Tensor& tensor, MixWeight& into, const MixWeight& coefficients) {
    tensor = (next++)->tensor;
    into = coefficients;
  };
  if (next != terms.end() && next->weight.defined() && next->weight.value.dim() <= 1)
    take(lane.skip, lane.blend, next->weight);
  else if (std::distance(next, terms.end()) == 2 && next->blend.defined() &&
           next->blend.value.dim() == 2)
    take(lane.skip, lane.blend, next->blend);
  if (next != terms.end() && next->blend.defined() && next->tensor.defined())
    take(lane.x0, lane.mix, next->blend);
  // A weight [] becomes a vector; autograd sums its gradient.
  auto& weight = lane.blend.value;
  if (weight.defined() && weight.dim() == 0) {
    if (lane.blend.gradient.defined()) return std::nullopt;
    weight = weight.expand(lane.terms[0].tensor.size(-1)).contiguous();
  }
  const bool blend = weight.defined() && weight.dim() == 2;
  if (next != terms.end() || (blend && !lane.mix.defined())) return std::nullopt;
  return lane;
}

// Whether all rows are like the first term's and all coefficients fp32.
bool have_one_dtype(const LaneTerms& lanes) {
  const auto& x = lanes.terms[0].tensor;
  const auto is_row = [&](const at::Tensor& tensor) {
    return !tensor.defined() ||
           (tensor.scalar_type() == x.scalar_type() && tensor.sizes() == x.sizes());
  };
  const auto is_fp32 = [](const MixWeight& weight) {
    return !weight.defined() || weight.value.scalar_type() == at::kFloat;
  };
  return is_row(lanes.skip) && is_row(lanes.x0) && is_fp32(lanes.weights) && is_fp32(lanes.blend) &&
         is_fp32(lanes.mix) &&
         std::ranges::all_of(lanes.terms, [&](const auto& term) { return is_row(term.tensor); });
}

bool kernels_support(const LaneTerms& lanes) {
  const auto is_vector = [](const MixWeight& pair) {
    return !pair.defined() || pair.value.dim() == 2;
  };
  const auto& x = lanes.terms[0].tensor;
  const auto count = lanes.terms.size();
  return (lanes.weights.defined() ? count == cuda::kLaneTerms : count <= 2) && x.defined() &&
         choose_residual_norm(x) == Kernel::cuda && is_vector(lanes.weights) &&
         is_vector(lanes.blend) && is_vector(lanes.mix) && have_one_dtype(lanes);
}

at::Tensor add_term(const at::Tensor& sum, const MixTerm& term) {
  const auto dtype = (term.tensor.defined() ? term.tensor : sum).scalar_type();
  const auto cast = [&](const MixWeight& parameter) {
    return parameter.differentiable().to(dtype);
  };
  if (term.blend.defined()) {
    const auto blend = cast(term.blend);
    const auto kept = blend[0] * sum;
    return term.tensor.defined() ? at::addcmul(kept, blend[1], term.tensor) : kept;
  }
  if (!term.weight.defined()) return sum.defined() ? sum + term.tensor : term.tensor;
  const auto weight = cast(term.weight);
  return sum.defined() ? at::addcmul(sum, weight, term.tensor) : weight * term.tensor;
}

ResidualNorm reference(const MixTerms& terms, const NormOptions& norm, std::size_t keep) {
  ResidualNorm out;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    out.x = add_term(out.x, terms[i]);
    if (i + 1 == keep) out.sum = out.x;
  }
  const auto y = rms_norm(out.x, norm.channels);
  out.y = norm.scale == 1 ? y : y * norm.scale;
  if (terms.back().blend.defined()) out.x0 = terms.back().tensor;
  return out;
}

NormedLanes reference(const LaneTerms& lane_terms, const std::array<NormOptions, 2>& norms) {
  const auto weights = lane_terms.weights.differentiable();
  const auto lane = [&](std::size_t k) {
    MixTerms terms;
    for (std::size_t t = 0; t < lane_terms.terms.size(); ++t) {
      auto term = lane_terms.terms[t];
      if (!term.tensor.defined()) continue;
      if (weights.defined())
        term.weight = weights[static_cast<std::int64_t>(k)][static_cast<std::int64_t>(t)];
      terms.push_back(term);
    }
    return residual_sum(terms);
  };
  auto first = MixTerms{{.tensor = lane(0)}};
  if (lane_terms.lanes == 1) return {.y = {residual_norm(first, norms[0]).y}};
  if (lane_terms.blend.defined())
    first.push_back({.tensor = lane_terms.skip, .blend = lane_terms.blend});
  const auto lane0 = residual_sum(first), lane1 = lane(1);
  auto mixed = MixTerms{{.tensor = lane0}};
  if (lane_terms.mix.defined()) mixed.push_back({.tensor = lane_terms.x0, .blend = lane_terms.mix});
  const auto norm0 = residual_norm(mixed, norms[0]), norm1 = residual_norm({{lane1}}, norms[1]);
  return {.lanes = {lane0, lane1}, .y = {norm0.y, norm1.y}, .x0 = norm0.x0};
}

}  // namespace

at::Tensor MixWeight::differentiable() const {
  if (!gradient.defined()) return value;
  auto leaf = value.detach().requires_grad_();
  leaf.mutable_grad() = gradient;  // autograd accumulates into it in place
  return leaf;
}

Kernel choose_residual_norm(const at::Tensor& x) {
  const auto width = x.dim() > 0 ? x.size(-1) : 0;
  const bool supported =
      use_kernels(x) && x.numel() > 0 && width % 8 == 0 && width <= cuda::kMaxResidualNormWidth;
  return supported ? Kernel::cuda : Kernel::aten;
}

at::Tensor residual_sum(const MixTerms& terms) {
  if (mix_norm_supports(terms)) return mix_sum(terms);
  at::Tensor sum;
  for (const auto& term : terms) sum = add_term(sum, term);
  return sum;
}

ResidualNorm residual_norm(const MixTerms& terms, const NormOptions& norm, std::size_t keep) {
  assert(!terms.empty() && !terms[0].blend.defined());
  const auto& first = terms[0].tensor;
  if (!first.defined() || choose_residual_norm(first) != Kernel::cuda)
    return reference(terms, norm, keep);
  const auto lane = match_one_lane(terms);
  if (!lane || !have_one_dtype(*lane))
    return keep == 0 && mix_norm_supports(terms) ? mix_norm(terms, norm)
                                                 : reference(terms, norm, keep);
  if (keep > 0 && keep != lane->terms.size()) return reference(terms, norm, keep);
  const auto out = fused_residual_norm(*lane, {norm}, keep > 0);
  return {.sum = out.sum, .x = out.lanes[0], .y = out.y[0], .x0 = out.x0};
}

NormedLanes residual_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms) {
  assert(!terms.terms.empty() &&
         (terms.lanes == 2 || (terms.lanes == 1 && terms.weights.defined())));
  return kernels_support(terms) ? fused_residual_norm(terms, norms) : reference(terms, norms);
}

}  // namespace tg
