#include "ops/norm/residual_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <optional>

#include "ops/norm/mix_norm.h"
#include "ops/norm/norm_outputs.h"
#include "ops/norm/rms_norm.h"
#include "ops/operands.h"

namespace tg {

namespace {

// Indices of apply()'s tensors. kSkipWeight: weight [D] or blend [2, D] of the skip.
enum : std::size_t { kX, kBranch, kSkip, kSkipWeight, kX0, kMix, kTensors };
using Tensors = std::array<at::Tensor, kTensors>;

struct KernelTerms {
  Tensors in;
  at::Tensor skip_gradient, mix_gradient;  // of MixWeight
};

// Matches the terms to the form that the kernels support; nullopt if they do not match.
std::optional<KernelTerms> match_kernel_terms(const MixTerms& terms) {
  KernelTerms matched;
  auto& in = matched.in;
  auto next = terms.begin();
  const auto take = [&](std::size_t tensor, std::size_t weight, const MixWeight& coefficients) {
    in[tensor] = (next++)->tensor;
    in[weight] = coefficients.value;
    return coefficients.gradient;
  };
  const auto is_plain = [&] { return next != terms.end() && next->is_plain(); };
  if (is_plain()) in[kX] = (next++)->tensor;
  if (is_plain()) in[kBranch] = (next++)->tensor;
  if (next != terms.end() && next->weight.defined() && next->weight.value.dim() <= 1)
    matched.skip_gradient = take(kSkip, kSkipWeight, next->weight);
  else if (std::distance(next, terms.end()) == 2 && next->blend.defined() &&
           next->blend.value.dim() == 2)
    matched.skip_gradient = take(kSkip, kSkipWeight, next->blend);
  if (next != terms.end() && next->blend.defined() && next->tensor.defined())
    matched.mix_gradient = take(kX0, kMix, next->blend);
  // A weight [] becomes a vector; autograd sums its gradient.
  if (in[kSkipWeight].defined() && in[kSkipWeight].dim() == 0 && in[kX].defined()) {
    if (matched.skip_gradient.defined()) return std::nullopt;
    in[kSkipWeight] = in[kSkipWeight].expand(in[kX].size(-1)).contiguous();
  }
  const bool blend = in[kSkipWeight].defined() && in[kSkipWeight].dim() == 2;
  if (!in[kX].defined() || next != terms.end() || (blend && !in[kMix].defined()))
    return std::nullopt;
  return matched;
}

cuda::ResidualNormTerms pointers(const Tensors& tensors) {
  const auto& skip_weight = tensors[kSkipWeight];
  const float* weight = const_fp32_data(skip_weight);
  const bool blend = skip_weight.defined() && skip_weight.dim() == 2;
  return {.x = const_data(tensors[kX]),
          .branch = const_data(tensors[kBranch]),
          .skip = const_data(tensors[kSkip]),
          .x0 = const_data(tensors[kX0]),
          .skip_weight = blend ? weight + skip_weight.size(1) : weight,
          .mix = const_fp32_data(tensors[kMix]),
          .mix_is_vector = tensors[kMix].defined() && tensors[kMix].dim() == 2,
          .sum_blend = blend ? weight : nullptr};
}

struct FusedResidualNorm : torch::autograd::Function<FusedResidualNorm> {
  // Arguments that are not differentiable tensors.
  struct Call {
    GivenInputs<kTensors> inputs;
    NormOptions norm{};
    bool keep_sum = false;
    Fp8Scaling branch_scaling{};             // for the branch's gradient
    at::Tensor skip_gradient, mix_gradient;  // of MixWeight
  };

  // Returns x', y, then x0 if there is a mix, then the sum if keep_sum. An output equal to an input
  // or another output is an alias of it, so that its gradient passes through backward().
  static variable_list forward(AutogradContext* context, at::TensorList defined, const Call& call,
                               const NormOutputs& outputs) {
    auto in = call.inputs.spread(defined);
    const bool mixed = in[kMix].defined(), skips = in[kSkipWeight].defined();
    const bool adds = in[kBranch].defined();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[kX]) : at::Tensor(); };
    const auto sum = like(call.keep_sum && adds && (skips || mixed));
    const auto residual = like(adds || skips || mixed);
    const auto next = residual.defined() ? residual : in[kX].variable_data();
    cuda::residual_norm_forward(pointers(in), norm_rows(in[kX], call.norm), mutable_data(sum),
                                mutable_data(residual), outputs.pointers(), current_stream(in[kX]));

    variable_list out{next, outputs.y.defined() ? outputs.y : next.variable_data()};
    if (mixed) out.push_back(in[kX0].variable_data());
    if (call.keep_sum) out.push_back(sum.defined() ? sum : (adds ? next : in[kX]).variable_data());

    // For the mix's gradient, backward recomputes the sum before the mix from tensors that are
    // saved anyway. Without a mix it needs only x', which the next block saves as well.
    if (!mixed) {
      in[kX] = next;
      in[kBranch].reset();
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

    const bool mixed = in[kMix].defined();
    // Accumulates in place into the later blocks' dx0 if nothing else refers to it.
    const bool reuse = mixed && is_sole_owner(upstream[2]);
    const auto dresidual = aligned_contiguous(upstream[0]), dy = aligned_contiguous(upstream[1]);
    const auto dx0_later = mixed ? aligned_contiguous(upstream[2]) : at::Tensor();
    const auto dsum = call.keep_sum ? aligned_contiguous(upstream[mixed ? 3 : 2]) : at::Tensor();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[kX]) : at::Tensor(); };
    Tensors d;
    d[kX] = d[kBranch] = like(needs_grad[kX] || needs_grad[kBranch]);
    d[kSkip] = like(needs_grad[kSkip]);
    d[kX0] = reuse ? dx0_later : like(needs_grad[kX0]);
    const auto rounded =
        needs_grad[kBranch] ? empty_fp8_like(d[kBranch], call.branch_scaling) : at::Tensor();
    cuda::residual_norm_backward(
        pointers(in), norm_rows(in[kX], call.norm),
        {.dsum = const_data(dsum),
         .dresidual = const_data(dresidual),
         .dy = const_data(dy),
         .dx0_later = const_data(dx0_later),
         .dx = mutable_data(d[kX]),
         .dskip = mutable_data(d[kSkip]),
         .dx0 = mutable_data(d[kX0]),
         .dx_copy = fp8_copy(rounded, call.branch_scaling),
         .dy_is_scaled = call.norm.form == NormedForm::deferred_scale},
        {.mix = sum_target(d[kMix], in[kMix], call.mix_gradient),
         .skip = sum_target(d[kSkipWeight], in[kSkipWeight], call.skip_gradient)},
        workspace_like(in[kX]), current_stream(in[kX]));
    return call.inputs.gradients(*context, d, /*others=*/2);
  }
};

bool supported(const Tensors& in) {
  const auto& x = in[kX];
  const auto data = [&](std::size_t i) {
    return !in[i].defined() ||
           (in[i].scalar_type() == x.scalar_type() && in[i].sizes() == x.sizes());
  };
  const auto fp32 = [&](std::size_t i) {
    return !in[i].defined() || in[i].scalar_type() == at::kFloat;
  };
  return data(kBranch) && data(kSkip) && data(kX0) && fp32(kSkipWeight) && fp32(kMix);
}

ResidualNorm fused(const KernelTerms& terms, const Fp8Scaling& branch_scaling,
                   const NormOptions& norm, bool keep_sum) {
  auto in = terms.in;
  const auto outputs = norm_outputs(in[kX], norm);
  std::ranges::transform(in, in.begin(), aligned_contiguous);
  const FusedResidualNorm::Call call{GivenInputs(in), outputs.norm,        keep_sum,
                                     branch_scaling,  terms.skip_gradient, terms.mix_gradient};
  const auto out = FusedResidualNorm::apply(at::TensorList(defined_of(in)), call, outputs);
  return {.sum = keep_sum ? out.back() : at::Tensor(),
          .x = out[0],
          .y = outputs.input(out[1]),
          .x0 = in[kMix].defined() ? out[2] : at::Tensor()};
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
  const auto in = match_kernel_terms(terms);
  if (!in || !supported(in->in))
    return keep == 0 && mix_norm_supports(terms) ? mix_norm(terms, norm)
                                                 : reference(terms, norm, keep);
  const bool has_branch = in->in[kBranch].defined();
  if (keep > 0 && keep != (has_branch ? 2 : 1)) return reference(terms, norm, keep);
  return fused(*in, has_branch ? terms[kBranch].gradient_scaling : Fp8Scaling(), norm, keep > 0);
}

}  // namespace tg
