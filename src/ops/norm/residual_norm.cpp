#include "ops/norm/residual_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

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

cuda::ResidualNormTerms pointers(const Tensors& of) {
  return {.x = const_data(of[kX]),
          .branch = const_data(of[kBranch]),
          .skip = const_data(of[kSkip]),
          .x0 = const_data(of[kX0]),
          .skip_weight = const_fp32_data(of[kSkipWeight]),
          .mix = const_fp32_data(of[kMix]),
          .mix_is_vector = of[kMix].defined() && of[kMix].dim() == 2};
}

struct FusedResidualNorm : torch::autograd::Function<FusedResidualNorm> {
  // → x', y, then x0 if there is a mix, then s if keep_sum, then row_scale if it
  // is asked for. An output
  // that equals an input or another output is an alias of it, so that its gradient passes through
  // backward().
  static variable_list forward(AutogradContext* context, const OptionalTensor& x,
                               const OptionalTensor& branch, const OptionalTensor& skip,
                               const OptionalTensor& skip_weight, const OptionalTensor& x0,
                               const OptionalTensor& mix, double norm_scale, bool keep_sum,
                               std::int64_t channels, NormedRows normed,
                               const Fp8Scaling& y_scaling,
                               const Fp8Scaling& branch_gradient_scaling) {
    Tensors in{or_undefined(x),           or_undefined(branch), or_undefined(skip),
               or_undefined(skip_weight), or_undefined(x0),     or_undefined(mix)};
    const bool mixed = in[kMix].defined(), skips = in[kSkip].defined();
    const bool adds = in[kBranch].defined(), writes_y = normed == NormedRows::written,
               scales = normed == NormedRows::as_row_scale;
    const auto like = [&](bool needed) { return needed ? at::empty_like(in[kX]) : at::Tensor(); };
    const auto sum = like(keep_sum && adds && (skips || mixed));
    const auto residual = like(adds || skips || mixed), y = like(writes_y);
    const auto rows = residual_norm_rows(in[kX], norm_scale, channels);
    const auto row_scale =
        scales ? at::empty({rows.count}, in[kX].options().dtype(at::kFloat)) : at::Tensor();
    const auto next = residual.defined() ? residual : in[kX].variable_data();
    const auto y_rounded = empty_fp8_like(writes_y ? y : next, y_scaling);
    cuda::residual_norm_forward(pointers(in), rows, mutable_data(sum), mutable_data(residual),
                                mutable_data(y), mutable_fp32_data(row_scale),
                                fp8_copy(y_rounded, y_scaling), current_stream(in[kX]));

    variable_list out{next, writes_y ? y : next.variable_data()};
    if (mixed) out.push_back(in[kX0].variable_data());
    if (keep_sum) out.push_back(sum.defined() ? sum : (adds ? next : in[kX]).variable_data());
    if (scales) {
      out.push_back(row_scale);
      context->mark_non_differentiable({row_scale});
    }

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
    context->saved_data["norm_scale"] = norm_scale;
    context->saved_data["keep_sum"] = keep_sum;
    context->saved_data["channels"] = channels;
    context->saved_data["dy_is_scaled"] = scales;
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
    variable_list gradients(kTensors + 6);
    for (std::size_t i = 0; i < kTensors; ++i)
      if (wanted[i]) gradients[i] = d[i];
    return gradients;
  }
};

bool supported(const ResidualTerms& terms) {
  const auto& x = terms.x;
  const auto width = x.dim() > 0 ? x.size(-1) : 0;
  const auto data = [&](const at::Tensor& other) {
    return !other.defined() ||
           (other.scalar_type() == x.scalar_type() && other.sizes() == x.sizes());
  };
  const auto fp32 = [](const at::Tensor& parameter) {
    return !parameter.defined() || parameter.scalar_type() == at::kFloat;
  };
  return x.numel() > 0 && width % 8 == 0 && width <= cuda::kMaxResidualNormWidth &&
         data(terms.branch) && data(terms.skip) && data(terms.x0) && fp32(terms.skip_weight) &&
         fp32(terms.mix);
}

ResidualNorm reference(const ResidualTerms& of, double norm_scale, bool keep_sum) {
  const auto cast = [&](const at::Tensor& parameter) { return parameter.to(of.x.scalar_type()); };
  auto x = of.x;
  if (of.branch.defined()) x = x + of.branch;
  const auto sum = keep_sum ? x : at::Tensor();
  if (of.skip.defined()) x = at::addcmul(x, cast(of.skip_weight), of.skip);
  if (of.mix.defined()) {
    const auto mix = cast(of.mix);
    x = at::addcmul(mix[0] * x, mix[1], of.x0);
  }
  const auto y = rms_norm(x, of.channels);
  return {.sum = sum, .x = x, .y = norm_scale == 1 ? y : y * norm_scale, .x0 = of.x0};
}

}  // namespace

ResidualNorm residual_norm(const ResidualTerms& terms, double norm_scale, bool keep_sum) {
  assert(terms.skip.defined() == terms.skip_weight.defined());
  assert(terms.x0.defined() || !terms.mix.defined());
  if (use_kernels(terms.x) && supported(terms)) {
    const bool mixed = terms.mix.defined();
    const auto normed = terms.x.scalar_type() == at::kBFloat16 ? terms.normed : NormedRows::written;
    assert(normed != NormedRows::in_fp8 || terms.y_scaling.cached);
    const auto input = [](const at::Tensor& x) { return optional_tensor(aligned_contiguous(x)); };
    const auto out = FusedResidualNorm::apply(
        input(terms.x), input(terms.branch), input(terms.skip), input(terms.skip_weight),
        input(mixed ? terms.x0 : at::Tensor()), input(terms.mix), norm_scale, keep_sum,
        terms.channels, normed, terms.y_scaling, terms.branch_gradient_scaling);
    return {.sum = keep_sum ? out[mixed ? 3 : 2] : at::Tensor(),
            .x = out[0],
            .y = out[1],
            .row_scale = normed == NormedRows::as_row_scale ? out.back() : at::Tensor(),
            .x0 = mixed ? out[2] : terms.x0};
  }
  return reference(terms, norm_scale, keep_sum);
}

}  // namespace tg
