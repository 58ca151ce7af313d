#include "ops/norm/lanes_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cassert>

#include "ops/norm/lanes_norm_kernel.h"
#include "ops/norm/norm_outputs.h"
#include "ops/operands.h"

namespace tg {

namespace {

// Indices of apply()'s tensors: the terms, then these.
enum : std::size_t { kSkip = cuda::kLaneTerms, kX0, kMix, kBlend, kWeights, kTensors };
constexpr std::size_t kLast = cuda::kLaneTerms - 1;  // a term
using Tensors = std::array<at::Tensor, kTensors>;

// Arguments that are not differentiable tensors.
struct Call {
  std::size_t lanes = 2;
  GivenInputs<kTensors> inputs{};
  std::array<NormOptions, 2> norms{};
  std::array<Fp8Scaling, 2> scalings{};  // for the gradients of the last two terms
  at::Tensor mix_gradient, blend_gradient, weights_gradient;  // of MixWeight

  bool dy_is_scaled(std::size_t k) const { return norms[k].form == NormedForm::deferred_scale; }
};

cuda::LanesNormTerms pointers(const Tensors& tensors, const Call& call) {
  cuda::LanesNormTerms terms{.weights = const_fp32_data(tensors[kWeights]),
                             .lanes = static_cast<int>(call.lanes),
                             .skip = const_data(tensors[kSkip]),
                             .x0 = const_data(tensors[kX0]),
                             .blend = const_fp32_data(tensors[kBlend]),
                             .mix = const_fp32_data(tensors[kMix]),
                             .norm_scale_1 = static_cast<float>(call.norms[1].scale)};
  for (std::size_t t = 0; t <= kLast; ++t) terms.terms[t] = const_data(tensors[t]);
  return terms;
}

struct FusedLanesNorm : torch::autograd::Function<FusedLanesNorm> {
  // Returns the tensors of y0 and y1, lane 0, lane 1, then x0 if there is a mix; with one lane only
  // y0's.
  static variable_list forward(AutogradContext* context, at::TensorList defined, const Call& call,
                               const std::array<NormOutputs, 2>& outputs) {
    const auto in = call.inputs.spread(defined);
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[0]) : at::Tensor(); };
    const bool two = call.lanes == 2;
    const auto lane0 = like(two), lane1 = like(two), mixed = like(outputs[0].defers_scale());
    cuda::lanes_norm_forward(pointers(in, call), norm_rows(in[0], call.norms[0]),
                             {mutable_data(lane0), mutable_data(lane1), mutable_data(mixed),
                              outputs[0].pointers(), outputs[1].pointers()},
                             current_stream(in[0]));
    context->save_for_backward({in.begin(), in.end()});
    context->saved_data["call"] = in_capsule(call);
    context->set_materialize_grads(false);

    // If y exists only in FP8, the differentiable output is a tensor of y's shape whose values are
    // not read.
    const auto &y0 = outputs[0].y, &y1 = outputs[1].y;
    const auto differentiable = y0.defined()      ? y0
                                : mixed.defined() ? mixed
                                                  : (two ? lane0 : in[0]).variable_data();
    if (!two) return {differentiable};
    variable_list out{differentiable, y1.defined() ? y1 : lane1.variable_data(), lane0, lane1};
    if (in[kMix].defined()) out.push_back(in[kX0].variable_data());
    return out;
  }

  // `upstream` by reference: copying the list would raise dx0's use count.
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto in = saved_tensors<kTensors>(*context);
    const auto needs_grad = call.inputs.needs_grad(*context);
    const bool weighted = in[kWeights].defined();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[0]) : at::Tensor(); };
    const auto gradient_of = [&](std::size_t i) {
      return i < upstream.size() ? aligned_contiguous(upstream[i]) : at::Tensor();
    };
    // Accumulates in place into the later blocks' dx0 if nothing else refers to it.
    const bool reuse = upstream.size() > 4 && is_sole_owner(upstream[4]);
    const auto dy0 = gradient_of(0), dy1 = gradient_of(1), dlane0 = gradient_of(2),
               dlane1 = gradient_of(3), dx0_later = gradient_of(4);

    Tensors d;
    if (weighted)
      for (std::size_t t = 0; t <= kLast; ++t) d[t] = like(needs_grad[t]);
    else
      d[kLast] = like(needs_grad[0] || needs_grad[kLast]);
    d[kSkip] = like(needs_grad[kSkip]);
    d[kX0] = reuse ? dx0_later : like(needs_grad[kX0]);
    cuda::LanesNormGradients gradients{.dlane0 = const_data(dlane0),
                                       .dlane1 = const_data(dlane1),
                                       .dy0 = const_data(dy0),
                                       .dy1 = const_data(dy1),
                                       .dx0_later = const_data(dx0_later),
                                       .dy0_is_scaled = call.dy_is_scaled(0),
                                       .dy1_is_scaled = call.dy_is_scaled(1),
                                       .dskip = mutable_data(d[kSkip]),
                                       .dx0 = mutable_data(d[kX0])};
    for (std::size_t t = 0; t <= kLast; ++t) gradients.dterms[t] = mutable_data(d[t]);
    std::array<at::Tensor, 2> rounded;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto t = kLast - 1 + i;
      if (needs_grad[t]) rounded[i] = empty_fp8_like(d[t], call.scalings[i]);
      gradients.copies[i] = fp8_copy(rounded[i], call.scalings[i]);
    }
    cuda::lanes_norm_backward(pointers(in, call), norm_rows(in[0], call.norms[0]), gradients,
                              {sum_target(d[kMix], in[kMix], call.mix_gradient),
                               sum_target(d[kBlend], in[kBlend], call.blend_gradient),
                               sum_target(d[kWeights], in[kWeights], call.weights_gradient)},
                              workspace_like(in[0]), current_stream(in[0]));
    if (!weighted) d[0] = d[kLast];
    return call.inputs.gradients(*context, d, /*others=*/2);
  }
};

// Orders the tensors for the kernels: with weights the four terms, without weights x first and the
// branch last.
Tensors in_kernel_order(const LaneTerms& lane_terms) {
  Tensors in;
  const auto count = lane_terms.terms.size();
  for (std::size_t t = 0; t < count; ++t)
    in[lane_terms.weights.defined() || t == 0 ? t : kLast] = lane_terms.terms[t].tensor;
  in[kSkip] = lane_terms.skip, in[kX0] = lane_terms.x0;
  in[kMix] = lane_terms.mix.value, in[kBlend] = lane_terms.blend.value,
  in[kWeights] = lane_terms.weights.value;
  return in;
}

bool supported(const LaneTerms& lane_terms) {
  const auto& x = lane_terms.terms[0].tensor;
  const auto is_row = [&](const at::Tensor& tensor) {
    return !tensor.defined() ||
           (tensor.scalar_type() == x.scalar_type() && tensor.sizes() == x.sizes());
  };
  const auto is_vector = [&](const MixWeight& pair) {
    return !pair.defined() || (pair.value.scalar_type() == at::kFloat && pair.value.dim() == 2);
  };
  const auto count = lane_terms.terms.size();
  return (lane_terms.weights.defined() ? count == cuda::kLaneTerms : count <= 2) && x.defined() &&
         choose_residual_norm(x) == Kernel::cuda && is_vector(lane_terms.weights) &&
         is_vector(lane_terms.blend) && is_vector(lane_terms.mix) && is_row(lane_terms.skip) &&
         is_row(lane_terms.x0) && std::ranges::all_of(lane_terms.terms, [&](const auto& term) {
           return is_row(term.tensor);
         });
}

NormedLanes fused(const LaneTerms& lane_terms, const std::array<NormOptions, 2>& norms) {
  auto in = in_kernel_order(lane_terms);
  Call call{.lanes = lane_terms.lanes(),
            .inputs = GivenInputs(in),
            .mix_gradient = lane_terms.mix.gradient,
            .blend_gradient = lane_terms.blend.gradient,
            .weights_gradient = lane_terms.weights.gradient};
  std::array<NormOutputs, 2> outputs;
  for (std::size_t k = 0; k < call.lanes; ++k) {
    outputs[k] = norm_outputs(in[0], norms[k]);
    call.norms[k] = outputs[k].norm;
  }
  const auto count = lane_terms.terms.size();
  if (count > 1) call.scalings[1] = lane_terms.terms[count - 1].gradient_scaling;
  if (lane_terms.weights.defined()) call.scalings[0] = lane_terms.terms[count - 2].gradient_scaling;
  std::ranges::transform(in, in.begin(), aligned_contiguous);
  const auto out = FusedLanesNorm::apply(at::TensorList(defined_of(in)), call, outputs);
  NormedLanes result{.y = {outputs[0].input(out[0])}};
  if (call.lanes == 1) return result;
  result.y[1] = outputs[1].input(out[1]);
  result.lanes = {out[2], out[3]};
  if (lane_terms.mix.defined()) result.x0 = out[4];
  return result;
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
  if (lane_terms.lanes() == 1) return {.y = {residual_norm(first, norms[0]).y}};
  if (lane_terms.blend.defined())
    first.push_back({.tensor = lane_terms.skip, .blend = lane_terms.blend});
  const auto lane0 = residual_sum(first), lane1 = lane(1);
  auto mixed = MixTerms{{.tensor = lane0}};
  if (lane_terms.mix.defined()) mixed.push_back({.tensor = lane_terms.x0, .blend = lane_terms.mix});
  const auto norm0 = residual_norm(mixed, norms[0]), norm1 = residual_norm({{lane1}}, norms[1]);
  return {.lanes = {lane0, lane1}, .y = {norm0.y, norm1.y}, .x0 = norm0.x0};
}

}  // namespace

NormedLanes lanes_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms) {
  assert(!terms.terms.empty() && terms.lanes() <= 2);
  return supported(terms) ? fused(terms, norms) : reference(terms, norms);
}

}  // namespace tg
