#include "ops/norm/lanes_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cassert>

#include "ops/norm/lanes_norm_kernel.h"
#include "ops/norm/norm_outputs.h"
#include "ops/norm/residual_norm_rows.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Indices of the tensors that apply() takes: the terms, then these.
enum : std::size_t { kSkip = cuda::kLaneTerms, kX0, kMix, kShares, kWeights, kTensors };
constexpr std::size_t kLast = cuda::kLaneTerms - 1;  // a term
using Tensors = std::array<at::Tensor, kTensors>;

// What is no tensor that autograd follows.
struct Call {
  std::size_t lanes = 2;
  std::array<bool, kTensors> given{};
  std::array<NormOptions, 2> norms{};
  std::array<Fp8Scaling, 2> scalings{};                        // of the last two terms' gradients
  at::Tensor mix_gradient, shares_gradient, weights_gradient;  // as MixWeight has them

  Tensors spread(at::TensorList defined) const {
    Tensors all;
    for (std::size_t i = 0, next = 0; i < kTensors; ++i)
      if (given[i]) all[i] = defined[next++];
    return all;
  }
};

cuda::LanesNormTerms pointers(const Tensors& of, const Call& call) {
  cuda::LanesNormTerms terms{.weights = const_fp32_data(of[kWeights]),
                             .lanes = static_cast<int>(call.lanes),
                             .skip = const_data(of[kSkip]),
                             .x0 = const_data(of[kX0]),
                             .shares = const_fp32_data(of[kShares]),
                             .mix = const_fp32_data(of[kMix]),
                             .norm_scale_1 = static_cast<float>(call.norms[1].scale)};
  for (std::size_t t = 0; t <= kLast; ++t) terms.terms[t] = const_data(of[t]);
  return terms;
}

struct FusedLanesNorm : torch::autograd::Function<FusedLanesNorm> {
  // → y0's and y1's tensor, lane 0, lane 1, then x0 if there is a mix; of one lane y0's alone.
  static variable_list forward(AutogradContext* context, at::TensorList defined, const Call& call,
                               const std::array<NormOutputs, 2>& outputs) {
    const auto in = call.spread(defined);
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[0]) : at::Tensor(); };
    const bool two = call.lanes == 2;
    const auto lane0 = like(two), lane1 = like(two);
    const auto& [out0, out1] = outputs;
    const auto y0 = like(out0.writes_y()), y1 = like(two && out1.writes_y()),
               mixed = like(out0.row_scale.defined());
    const auto normed = [&](std::size_t k, const at::Tensor& y) {
      const auto& out = outputs[k];
      return cuda::NormedRows{mutable_data(y), mutable_fp32_data(out.row_scale),
                              fp8_copy(out.rounded, call.norms[k].rounding)};
    };
    cuda::lanes_norm_forward(pointers(in, call),
                             residual_norm_rows(in[0], call.norms[0].scale, call.norms[0].channels),
                             {mutable_data(lane0), mutable_data(lane1), mutable_data(mixed),
                              normed(0, y0), normed(1, y1)},
                             current_stream(in[0]));
    context->save_for_backward({in.begin(), in.end()});
    context->saved_data["call"] = in_capsule(call);
    context->saved_data["dy0_is_scaled"] = out0.form == NormedForm::scaled_by_row;
    context->saved_data["dy1_is_scaled"] = out1.form == NormedForm::scaled_by_row;
    context->set_materialize_grads(false);

    // In FP8 alone the tensor that autograd follows has y's shape, and nothing reads it.
    const auto followed = y0.defined()      ? y0
                          : mixed.defined() ? mixed
                                            : (two ? lane0 : in[0]).variable_data();
    if (!two) return {followed};
    variable_list out{followed, y1.defined() ? y1 : lane1.variable_data(), lane0, lane1};
    if (in[kMix].defined()) out.push_back(in[kX0].variable_data());
    return out;
  }

  // By reference: a copy of the list would raise the use count of dx0.
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto saved = context->get_saved_variables();
    Tensors in, d;
    std::copy(saved.begin(), saved.end(), in.begin());
    const auto wanted =
        wanted_gradients<kTensors>(*context, [&](std::size_t i) { return call.given[i]; });
    const bool weighted = in[kWeights].defined();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[0]) : at::Tensor(); };
    const auto of = [&](std::size_t i) {
      return i < upstream.size() ? aligned_contiguous(upstream[i]) : at::Tensor();
    };
    // Accumulates into the later blocks' dx0 in place where nothing else holds it.
    const bool reuse = upstream.size() > 4 && is_sole_owner(upstream[4]);
    const auto dy0 = of(0), dy1 = of(1), dlane0 = of(2), dlane1 = of(3), dx0_later = of(4);

    const auto rows = residual_norm_rows(in[0], call.norms[0].scale, call.norms[0].channels);
    const auto terms = pointers(in, call);
    cuda::LanesNormGradients gradients{
        .dlane0 = const_data(dlane0),
        .dlane1 = const_data(dlane1),
        .dy0 = const_data(dy0),
        .dy1 = const_data(dy1),
        .dx0_later = const_data(dx0_later),
        .dy0_is_scaled = context->saved_data["dy0_is_scaled"].toBool(),
        .dy1_is_scaled = context->saved_data["dy1_is_scaled"].toBool()};
    if (weighted)
      for (std::size_t t = 0; t <= kLast; ++t) d[t] = like(wanted[t]);
    else
      d[kLast] = like(wanted[0] || wanted[kLast]);
    d[kSkip] = like(wanted[kSkip]);
    d[kX0] = reuse ? dx0_later : like(wanted[kX0]);
    for (std::size_t t = 0; t <= kLast; ++t) gradients.dterms[t] = mutable_data(d[t]);
    gradients.dskip = mutable_data(d[kSkip]), gradients.dx0 = mutable_data(d[kX0]);
    std::array<at::Tensor, 2> rounded;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto t = kLast - 1 + i;
      if (wanted[t]) rounded[i] = empty_fp8_like(d[t], call.scalings[i]);
      gradients.copies[i] = fp8_copy(rounded[i], call.scalings[i]);
    }
    const auto target = [&](std::size_t i, const at::Tensor& accumulated) {
      if (in[i].defined()) d[i] = sums_of(in[i], accumulated);
      return sum_target(d[i], accumulated);
    };
    const cuda::LanesNormSums sums{target(kMix, call.mix_gradient),
                                   target(kShares, call.shares_gradient),
                                   target(kWeights, call.weights_gradient)};
    const int blocks =
        cuda::lanes_norm_blocks(terms, rows, rounded[0].defined() || rounded[1].defined());
    const auto partials = at::empty({blocks, cuda::lanes_norm_columns(terms, rows)},
                                    in[0].options().dtype(at::kFloat));
    cuda::lanes_norm_backward(terms, rows, gradients, blocks, mutable_fp32_data(partials), sums,
                              current_stream(in[0]));

    if (!weighted) d[0] = d[kLast];
    variable_list found;
    for (std::size_t i = 0; i < kTensors; ++i)
      if (call.given[i]) found.push_back(wanted[i] ? d[i] : at::Tensor());
    found.resize(found.size() + 2);  // none of the call and the outputs
    return found;
  }
};

// What the kernels take: with weights four terms, without x first and the branch last.
Tensors in_kernel_order(const LaneTerms& of) {
  Tensors in;
  const auto count = of.terms.size();
  for (std::size_t t = 0; t < count; ++t)
    in[of.weights.defined() || t == 0 ? t : kLast] = of.terms[t].tensor;
  in[kSkip] = of.skip, in[kX0] = of.x0;
  in[kMix] = of.mix.value, in[kShares] = of.shares.value, in[kWeights] = of.weights.value;
  return in;
}

bool supported(const LaneTerms& of) {
  const auto& x = of.terms[0].tensor;
  const auto is_row = [&](const at::Tensor& tensor) {
    return !tensor.defined() ||
           (tensor.scalar_type() == x.scalar_type() && tensor.sizes() == x.sizes());
  };
  const auto is_vector = [&](const MixWeight& pair) {
    return !pair.defined() || (pair.value.scalar_type() == at::kFloat && pair.value.dim() == 2);
  };
  const auto count = of.terms.size();
  return (of.weights.defined() ? count == cuda::kLaneTerms : count <= 2) && x.defined() &&
         choose_residual_norm(x) == Kernel::cuda && is_vector(of.weights) && is_vector(of.shares) &&
         is_vector(of.mix) && is_row(of.skip) && is_row(of.x0) &&
         std::ranges::all_of(of.terms, [&](const auto& term) { return is_row(term.tensor); });
}

NormedLanes fused(const LaneTerms& of, const std::array<NormOptions, 2>& norms) {
  const auto in = in_kernel_order(of);
  Call call{.lanes = of.lanes(),
            .norms = norms,
            .mix_gradient = of.mix.gradient,
            .shares_gradient = of.shares.gradient,
            .weights_gradient = of.weights.gradient};
  std::array<NormOutputs, 2> outputs;
  for (std::size_t k = 0; k < call.lanes; ++k) outputs[k] = norm_outputs(in[0], norms[k]);
  const auto count = of.terms.size();
  if (count > 1) call.scalings[1] = of.terms[count - 1].gradient_scaling;
  if (of.weights.defined()) call.scalings[0] = of.terms[count - 2].gradient_scaling;
  std::vector<at::Tensor> defined;
  for (std::size_t i = 0; i < kTensors; ++i) {
    if (!in[i].defined()) continue;
    call.given[i] = true;
    defined.push_back(aligned_contiguous(in[i]));
  }
  const auto out = FusedLanesNorm::apply(at::TensorList(defined), call, outputs);
  NormedLanes result{.y = {outputs[0].input(out[0])}};
  if (call.lanes == 1) return result;
  result.y[1] = outputs[1].input(out[1]);
  result.lanes = {out[2], out[3]};
  if (of.mix.defined()) result.x0 = out[4];
  return result;
}

NormedLanes reference(const LaneTerms& of, const std::array<NormOptions, 2>& norms) {
  const auto weights = of.weights.followed();
  const auto lane = [&](std::size_t k) {
    MixTerms terms;
    for (std::size_t t = 0; t < of.terms.size(); ++t) {
      auto term = of.terms[t];
      if (!term.tensor.defined()) continue;
      if (weights.defined())
        term.weight = weights[static_cast<std::int64_t>(k)][static_cast<std::int64_t>(t)];
      terms.push_back(term);
    }
    return residual_sum(terms);
  };
  auto first = MixTerms{{.tensor = lane(0)}};
  if (of.lanes() == 1) return {.y = {residual_norm(first, norms[0]).y}};
  if (of.shares.defined()) first.push_back({.tensor = of.skip, .shares = of.shares});
  const auto lane0 = residual_sum(first), lane1 = lane(1);
  auto mixed = MixTerms{{.tensor = lane0}};
  if (of.mix.defined()) mixed.push_back({.tensor = of.x0, .shares = of.mix});
  const auto of_first = residual_norm(mixed, norms[0]),
             of_second = residual_norm({{lane1}}, norms[1]);
  return {.lanes = {lane0, lane1}, .y = {of_first.y, of_second.y}, .x0 = of_first.x0};
}

}  // namespace

NormedLanes lanes_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms) {
  assert(!terms.terms.empty() && terms.lanes() <= 2);
  return supported(terms) ? fused(terms, norms) : reference(terms, norms);
}

}  // namespace tg
