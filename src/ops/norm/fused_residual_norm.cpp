#include "ops/norm/fused_residual_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "ops/norm/norm_outputs.h"
#include "ops/operands.h"

namespace tg {

namespace {

constexpr std::size_t kTerms = cuda::kLaneTerms;
// Indices of apply()'s tensors: the terms, then these. kSkipWeight: weight [D] or blend [2, D].
enum : std::size_t { kSkip = kTerms, kSkipWeight, kX0, kMix, kWeights, kTensors };
using Tensors = std::array<at::Tensor, kTensors>;

// Arguments that are not differentiable tensors.
struct Call {
  std::size_t lanes = 1;
  bool weighted = false, keep_sum = false;
  GivenInputs<kTensors> inputs{};
  std::array<NormOptions, 2> norms{};
  std::array<Fp8Scaling, kTerms> scalings{};                 // for the gradients of the terms
  at::Tensor mix_gradient, skip_gradient, weights_gradient;  // of MixWeight

  bool is_single_sum() const { return lanes == 1 && !weighted; }
  // Whether the lanes themselves are results, as they are but for the last, weighted one.
  bool returns_lanes() const { return lanes == 2 || !weighted; }
  // Index of the last term: without weights the branch, which two lanes have as the last of four.
  std::size_t last() const { return is_single_sum() ? 1 : kTerms - 1; }
  bool dy_is_scaled(std::size_t lane) const {
    return norms[lane].form == NormedForm::deferred_scale;
  }
};

cuda::ResidualNormTerms pointers(const Tensors& in, const Call& call) {
  const auto& weight = in[kSkipWeight];
  const float* skip_weight = const_fp32_data(weight);
  const bool blend = weight.defined() && weight.dim() == 2;
  cuda::ResidualNormTerms terms{.lanes = static_cast<int>(call.lanes),
                                .weights = const_fp32_data(in[kWeights]),
                                .skip = const_data(in[kSkip]),
                                .x0 = const_data(in[kX0]),
                                .skip_weight = blend ? skip_weight + weight.size(1) : skip_weight,
                                .sum_blend = blend ? skip_weight : nullptr,
                                .mix = const_fp32_data(in[kMix]),
                                .mix_is_vector = in[kMix].defined() && in[kMix].dim() == 2,
                                .norm_scale_1 = static_cast<float>(call.norms[1].scale)};
  for (std::size_t t = 0; t < kTerms; ++t) terms.terms[t] = const_data(in[t]);
  return terms;
}

struct FusedResidualNorm : torch::autograd::Function<FusedResidualNorm> {
  // Returns y [and the lane] for each lane, then x0 if there is a mix, then the sum if keep_sum. An
  // output equal to an input or another output is an alias of it, so that its gradient passes
  // through backward(); so is y if it exists only in FP8, then its values are not read.
  static variable_list forward(AutogradContext* context, at::TensorList defined, const Call& call,
                               const std::array<NormOutputs, 2>& outputs) {
    auto in = call.inputs.spread(defined);
    const bool two = call.lanes == 2, mixes = in[kMix].defined();
    const bool adds = in[call.last()].defined(), changes = mixes || in[kSkipWeight].defined();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[0]) : at::Tensor(); };
    const bool defers_scale = outputs[0].defers_scale();
    const auto sum = like(call.keep_sum && adds && changes);
    const auto lane0 = like(two || (call.weighted ? defers_scale : adds || changes));
    const auto lane1 = like(two), mixed = like(two && defers_scale);
    cuda::residual_norm_forward(pointers(in, call), norm_rows(in[0], call.norms[0]),
                                {.sum = mutable_data(sum),
                                 .lanes = {mutable_data(lane0), mutable_data(lane1)},
                                 .mixed = mutable_data(mixed),
                                 .normed = {outputs[0].pointers(), outputs[1].pointers()}},
                                current_stream(in[0]));

    const auto x = lane0.defined() ? lane0 : in[0].variable_data();
    const auto y_or = [](const NormOutputs& norm, const at::Tensor& rows) {
      return norm.y.defined() ? norm.y : rows.variable_data();
    };
    variable_list out{mixed.defined() ? mixed : y_or(outputs[0], x)};
    if (call.returns_lanes()) out.push_back(x);
    if (two) out.insert(out.end(), {y_or(outputs[1], lane1), lane1});
    if (mixes) out.push_back(in[kX0].variable_data());
    if (call.keep_sum) out.push_back(sum.defined() ? sum : (adds ? x : in[0]).variable_data());

    // For the mix's gradient, backward recomputes the sums before the mix from tensors that are
    // saved anyway. One sum without a mix needs only x', which the next block saves as well.
    if (call.is_single_sum() && !mixes) {
      in[0] = x;
      in[call.last()].reset();
    }
    context->save_for_backward({in.begin(), in.end()});
    context->saved_data["call"] = in_capsule(call);
    context->set_materialize_grads(false);
    return out;
  }

  // `upstream` by reference: copying the list would raise dx0's use count.
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto in = saved_tensors<kTensors>(*context);
    const auto needs_grad = call.inputs.needs_grad(*context);
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[0]) : at::Tensor(); };
    auto next = upstream.begin();
    const auto take = [&](bool exists) {
      return exists ? aligned_contiguous(*next++) : at::Tensor();
    };
    const auto dy0 = take(true), dlane0 = take(call.returns_lanes()), dy1 = take(call.lanes == 2),
               dlane1 = take(call.lanes == 2);
    // Accumulates in place into the later blocks' dx0 if nothing else refers to it.
    const bool reuse = in[kMix].defined() && is_sole_owner(*next);
    const auto dx0_later = take(in[kMix].defined()), dsum = take(call.keep_sum);

    Tensors d;
    const auto last = call.last();
    if (call.weighted)
      for (std::size_t t = 0; t < kTerms; ++t) d[t] = like(needs_grad[t]);
    else
      d[last] = like(needs_grad[0] || needs_grad[last]);
    d[kSkip] = like(needs_grad[kSkip]);
    d[kX0] = reuse ? dx0_later : like(needs_grad[kX0]);
    cuda::ResidualNormGradients gradients{
        .dsum = const_data(dsum),
        .dlanes = {const_data(dlane0), const_data(dlane1)},
        .dy = {const_data(dy0), const_data(dy1)},
        .dx0_later = const_data(dx0_later),
        .dy_is_scaled = {call.dy_is_scaled(0), call.dy_is_scaled(1)},
        .dskip = mutable_data(d[kSkip]),
        .dx0 = mutable_data(d[kX0])};
    // A single sum has one gradient of its terms.
    const auto first = call.is_single_sum() ? last : 0;
    for (auto t = first; t <= last; ++t) gradients.dterms[t - first] = mutable_data(d[t]);
    std::array<at::Tensor, 2> rounded;
    for (std::size_t i = 0, t = std::max(first, last - 1); t <= last; ++i, ++t) {
      if (needs_grad[t]) rounded[i] = empty_fp8_like(d[t], call.scalings[t]);
      gradients.copies[i] = fp8_copy(rounded[i], call.scalings[t]);
    }
    cuda::residual_norm_backward(
        pointers(in, call), norm_rows(in[0], call.norms[0]), gradients,
        {.mix = sum_target(d[kMix], in[kMix], call.mix_gradient),
         .skip = sum_target(d[kSkipWeight], in[kSkipWeight], call.skip_gradient),
         .weights = sum_target(d[kWeights], in[kWeights], call.weights_gradient)},
        workspace_like(in[0]), current_stream(in[0]));
    if (!call.weighted) d[0] = d[last];
    return call.inputs.gradients(*context, d, /*others=*/2);
  }
};

}  // namespace

FusedLanes fused_residual_norm(const LaneTerms& terms, const std::array<NormOptions, 2>& norms,
                               bool keep_sum) {
  Call call{.lanes = terms.lanes,
            .weighted = terms.weights.defined(),
            .keep_sum = keep_sum,
            .mix_gradient = terms.mix.gradient,
            .skip_gradient = terms.blend.gradient,
            .weights_gradient = terms.weights.gradient};
  Tensors in;
  for (std::size_t i = 0; i < terms.terms.size(); ++i) {
    const auto t = call.weighted || i == 0 ? i : call.last();
    in[t] = terms.terms[i].tensor;
    call.scalings[t] = terms.terms[i].gradient_scaling;
  }
  in[kSkip] = terms.skip, in[kX0] = terms.x0;
  in[kMix] = terms.mix.value, in[kSkipWeight] = terms.blend.value;
  in[kWeights] = terms.weights.value;
  call.inputs = GivenInputs(in);
  std::array<NormOutputs, 2> outputs;
  for (std::size_t k = 0; k < call.lanes; ++k) {
    outputs[k] = norm_outputs(in[0], norms[k]);
    call.norms[k] = outputs[k].norm;
  }
  std::ranges::transform(in, in.begin(), aligned_contiguous);
  const auto out = FusedResidualNorm::apply(at::TensorList(defined_of(in)), call, outputs);
  auto next = out.begin();
  FusedLanes result;
  for (std::size_t k = 0; k < call.lanes; ++k) {
    result.y[k] = outputs[k].input(*next++);
    if (call.returns_lanes()) result.lanes[k] = *next++;
  }
  if (terms.mix.defined()) result.x0 = *next++;
  if (keep_sum) result.sum = *next;
  return result;
}

}  // namespace tg
