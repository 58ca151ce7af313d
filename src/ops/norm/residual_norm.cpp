#include "ops/norm/residual_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <optional>

#include "ops/norm/residual_norm_rows.h"
#include "ops/norm/rms_norm.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Indices of the tensors that apply() takes.
enum : std::size_t { kX, kBranch, kSkip, kSkipWeight, kX0, kMix, kTensors };
using Tensors = std::array<at::Tensor, kTensors>;

// The terms in the form that the kernels compute, or none.
std::optional<Tensors> for_kernels(const MixTerms& terms) {
  Tensors in;
  auto next = terms.begin();
  const auto is_plain = [&] { return next != terms.end() && next->is_plain(); };
  if (is_plain()) in[kX] = (next++)->tensor;
  if (is_plain()) in[kBranch] = (next++)->tensor;
  if (next != terms.end() && next->weight.defined() && next->weight.dim() == 1) {
    in[kSkip] = next->tensor;
    in[kSkipWeight] = (next++)->weight;
  }
  if (next != terms.end() && next->shares.defined()) {
    in[kX0] = next->tensor;
    in[kMix] = (next++)->shares;
  }
  return in[kX].defined() && next == terms.end() ? std::optional(in) : std::nullopt;
}

cuda::ResidualNormTerms pointers(const Tensors& of) {
  return {.x = const_data(of[kX]),
          .branch = const_data(of[kBranch]),
          .skip = const_data(of[kSkip]),
          .x0 = const_data(of[kX0]),
          .skip_weight = const_fp32_data(of[kSkipWeight]),
          .mix = const_fp32_data(of[kMix]),
          .mix_is_vector = of[kMix].defined() && of[kMix].dim() == 2};
}

// Where the kernel writes of y what autograd does not follow; undefined: it does not.
struct NormOutputs {
  bool writes_y = false;
  at::Tensor row_scale{}, rounded{};
};

struct FusedResidualNorm : torch::autograd::Function<FusedResidualNorm> {
  // → x', y, then x0 if there is a mix, then s if keep_sum. An output that equals an input or
  // another output is an alias of it, so that its gradient passes through backward().
  static variable_list forward(AutogradContext* context, const OptionalTensor& x,
                               const OptionalTensor& branch, const OptionalTensor& skip,
                               const OptionalTensor& skip_weight, const OptionalTensor& x0,
                               const OptionalTensor& mix, const NormOptions& norm, bool keep_sum,
                               const NormOutputs& outputs,
                               const Fp8Scaling& branch_gradient_scaling) {
    Tensors in{or_undefined(x),           or_undefined(branch), or_undefined(skip),
               or_undefined(skip_weight), or_undefined(x0),     or_undefined(mix)};
    const bool mixed = in[kMix].defined(), skips = in[kSkip].defined();
    const bool adds = in[kBranch].defined();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[kX]) : at::Tensor(); };
    const auto sum = like(keep_sum && adds && (skips || mixed));
    const auto residual = like(adds || skips || mixed), y = like(outputs.writes_y);
    const auto rows = residual_norm_rows(in[kX], norm.scale, norm.channels);
    const auto next = residual.defined() ? residual : in[kX].variable_data();
    cuda::residual_norm_forward(pointers(in), rows, mutable_data(sum), mutable_data(residual),
                                mutable_data(y), mutable_fp32_data(outputs.row_scale),
                                fp8_copy(outputs.rounded, norm.rounding), current_stream(in[kX]));

    variable_list out{next, outputs.writes_y ? y : next.variable_data()};
    if (mixed) out.push_back(in[kX0].variable_data());
    if (keep_sum) out.push_back(sum.defined() ? sum : (adds ? next : in[kX]).variable_data());

    // Backward recomputes t for the mix's gradient from tensors that are saved anyway. Without a
    // mix it needs only x', which the next block saves, too.
    std::int64_t given = 0;
    for (std::size_t i = 0; i < kTensors; ++i) given |= std::int64_t{in[i].defined()} << i;
    if (!mixed) {
      in[kX] = next;
      in[kBranch].reset();
    }
    context->save_for_backward({in.begin(), in.end()});
    context->saved_data["given"] = given;
    context->saved_data["norm_scale"] = norm.scale;
    context->saved_data["keep_sum"] = keep_sum;
    context->saved_data["channels"] = norm.channels;
    context->saved_data["dy_is_scaled"] = outputs.row_scale.defined();
    context->saved_data["branch_gradient_scaling"] = in_capsule(branch_gradient_scaling);
    context->set_materialize_grads(false);
    return out;
  }

  // By reference: a copy of the list would raise the use count of dx0.
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    Tensors in;
    std::copy(saved.begin(), saved.end(), in.begin());
    const auto given = context->saved_data["given"].toInt();
    const auto wanted =
        wanted_gradients<kTensors>(*context, [&](std::size_t i) { return (given >> i & 1) != 0; });

    const bool mixed = in[kMix].defined();
    // Accumulates into the later blocks' dx0 in place where nothing else holds it.
    const bool reuse = mixed && is_sole_owner(upstream[2]);
    const auto dresidual = aligned_contiguous(upstream[0]), dy = aligned_contiguous(upstream[1]);
    const auto dx0_later = mixed ? aligned_contiguous(upstream[2]) : at::Tensor();
    const auto dsum = context->saved_data["keep_sum"].toBool()
                          ? aligned_contiguous(upstream[mixed ? 3 : 2])
                          : at::Tensor();
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[kX]) : at::Tensor(); };
    Tensors d;
    d[kX] = d[kBranch] = like(wanted[kX] || wanted[kBranch]);
    d[kSkip] = like(wanted[kSkip]);
    d[kX0] = reuse ? dx0_later : like(wanted[kX0]);

    const auto rows = residual_norm_rows(in[kX], context->saved_data["norm_scale"].toDouble(),
                                         context->saved_data["channels"].toInt());
    const auto terms = pointers(in);
    const auto columns = cuda::residual_norm_columns(terms, rows);
    const auto scaling = from_capsule<Fp8Scaling>(context->saved_data["branch_gradient_scaling"]);
    const auto rounded = wanted[kBranch] ? empty_fp8_like(d[kBranch], scaling) : at::Tensor();
    const int blocks = cuda::residual_norm_blocks(terms, rows, rounded.defined());
    const auto fp32 = in[kX].options().dtype(at::kFloat);
    const auto partials = columns > 0 ? at::empty({blocks, columns}, fp32) : at::Tensor();
    const auto sums = columns > 0 ? at::empty({columns}, fp32) : at::Tensor();
    cuda::residual_norm_backward(terms, rows,
                                 {.dsum = const_data(dsum),
                                  .dresidual = const_data(dresidual),
                                  .dy = const_data(dy),
                                  .dx0_later = const_data(dx0_later),
                                  .dx = mutable_data(d[kX]),
                                  .dskip = mutable_data(d[kSkip]),
                                  .dx0 = mutable_data(d[kX0]),
                                  .dx_copy = fp8_copy(rounded, scaling),
                                  .dy_is_scaled = context->saved_data["dy_is_scaled"].toBool()},
                                 blocks, mutable_fp32_data(partials), mutable_fp32_data(sums),
                                 current_stream(in[kX]));

    const std::int64_t width = rows.width;
    if (mixed) {
      d[kMix] = terms.mix_is_vector ? sums.narrow(0, 0, 2 * width).view({2, width})
                                    : sums.narrow(0, columns - 2, 2);
    }
    if (in[kSkip].defined()) d[kSkipWeight] = sums.narrow(0, 2 * width, width);
    variable_list gradients(kTensors + 4);
    for (std::size_t i = 0; i < kTensors; ++i)
      if (wanted[i]) gradients[i] = d[i];
    return gradients;
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
  return choose_residual_norm(x) == Kernel::cuda && data(kBranch) && data(kSkip) && data(kX0) &&
         fp32(kSkipWeight) && fp32(kMix);
}

ResidualNorm fused(const Tensors& in, const Fp8Scaling& branch_gradient_scaling,
                   const NormOptions& norm, bool keep_sum) {
  const auto& x = in[kX];
  const auto form = x.scalar_type() == at::kBFloat16 ? norm.form : NormedForm::written;
  const bool scales = form == NormedForm::scaled_by_row;
  assert(form == NormedForm::in_fp8 ? norm.rounding.defined()
                                    : !scales || !norm.rounding.defined());
  const auto rows = x.numel() / x.size(-1);
  const NormOutputs outputs{
      .writes_y = form == NormedForm::written,
      .row_scale = scales ? at::empty({rows}, x.options().dtype(at::kFloat)) : at::Tensor(),
      .rounded = empty_fp8_like(x, norm.rounding)};
  const auto input = [](const at::Tensor& of) { return optional_tensor(aligned_contiguous(of)); };
  const auto out = FusedResidualNorm::apply(input(x), input(in[kBranch]), input(in[kSkip]),
                                            input(in[kSkipWeight]), input(in[kX0]), input(in[kMix]),
                                            norm, keep_sum, outputs, branch_gradient_scaling);
  return {.sum = keep_sum ? out.back() : at::Tensor(),
          .x = out[0],
          .y = scales                       ? NormedInput::scaled_by_row(out[1], outputs.row_scale)
               : form == NormedForm::in_fp8 ? NormedInput::in_fp8(out[1], outputs.rounded)
                                            : NormedInput(out[1], outputs.rounded),
          .x0 = in[kMix].defined() ? out[2] : at::Tensor()};
}

at::Tensor added(const at::Tensor& sum, const MixTerm& term) {
  const auto cast = [&](const at::Tensor& parameter) {
    return parameter.to(term.tensor.scalar_type());
  };
  if (term.shares.defined()) {
    const auto shares = cast(term.shares);
    return at::addcmul(shares[0] * sum, shares[1], term.tensor);
  }
  if (!term.weight.defined()) return sum.defined() ? sum + term.tensor : term.tensor;
  const auto weight = cast(term.weight);
  return sum.defined() ? at::addcmul(sum, weight, term.tensor) : weight * term.tensor;
}

ResidualNorm reference(const MixTerms& terms, const NormOptions& norm, std::size_t keep) {
  ResidualNorm out;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    out.x = added(out.x, terms[i]);
    if (i + 1 == keep) out.sum = out.x;
  }
  const auto y = rms_norm(out.x, norm.channels);
  out.y = norm.scale == 1 ? y : y * norm.scale;
  if (terms.back().shares.defined()) out.x0 = terms.back().tensor;
  return out;
}

}  // namespace

Kernel choose_residual_norm(const at::Tensor& x) {
  const auto width = x.dim() > 0 ? x.size(-1) : 0;
  const bool supported =
      use_kernels(x) && x.numel() > 0 && width % 8 == 0 && width <= cuda::kMaxResidualNormWidth;
  return supported ? Kernel::cuda : Kernel::aten;
}

at::Tensor residual_sum(const MixTerms& terms) {
  at::Tensor sum;
  for (const auto& term : terms) sum = added(sum, term);
  return sum;
}

ResidualNorm residual_norm(const MixTerms& terms, const NormOptions& norm, std::size_t keep) {
  assert(!terms.empty() && !terms[0].shares.defined());
  const auto in = for_kernels(terms);
  if (!in || !supported(*in)) return reference(terms, norm, keep);
  const bool has_branch = (*in)[kBranch].defined();
  if (keep > 0 && keep != (has_branch ? 2 : 1)) return reference(terms, norm, keep);
  return fused(*in, has_branch ? terms[kBranch].gradient_scaling : Fp8Scaling(), norm, keep > 0);
}

}  // namespace tg
