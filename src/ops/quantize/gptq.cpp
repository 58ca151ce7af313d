#include "ops/quantize/gptq.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cassert>

#include "base/error.h"
#include "ops/kernels.h"
#include "ops/quantize/gptq_kernel.h"
#include "ops/quantize/rounding.h"

namespace tg {
namespace {

at::Tensor finite_fp32(const at::Tensor& weight, std::string_view name) {
  assert(weight.dim() == 2 && weight.numel() > 0);
  at::Tensor w = weight.to(at::kFloat);
  REQUIRE(all_finite(w), ExitCode::internal,
          "{}: cannot be quantised (expected finite numbers, found NaN or infinity)", name);
  return w;
}

at::Tensor row_scales(const at::Tensor& w, const GptqOptions& options) {  // [rows] fp16
  assert(options.bits >= 2 && options.bits <= 8);
  const double levels = symmetric_levels(options.bits);
  const at::Tensor max_scale = divide(w.abs().amax(1), levels);
  if (w.size(1) == 1)
    return fp16_scale(max_scale);  // the unbiased deviation of one element is undefined
  const at::Tensor deviation = w.std(/*dim=*/{1}, /*unbiased=*/true);
  const at::Tensor clipped_scale = divide(options.clip_sigmas * deviation, levels);
  return fp16_scale(at::where(clipped_scale.to(at::kHalf) > 0, clipped_scale, max_scale));
}

// Quantizes the columns of `w` [rows, k] in sequence into `q`, with the block U [k, k] of the
// factor. Returns the errors e [rows, k].
at::Tensor round_block(const at::Tensor& w, const at::Tensor& factor, const at::Tensor& scale,
                       double levels, const at::Tensor& q) {
  const auto columns = w.size(1);
  if (use_kernels(w)) {
    auto error = at::empty({w.size(0), columns}, w.options());
    cuda::gptq_block({.weight = const_fp32_data(w),
                      .factor = const_fp32_data(factor),
                      .scale = const_fp32_data(scale),
                      .q = q.mutable_data_ptr<std::int8_t>(),
                      .error = mutable_fp32_data(error),
                      .rows = w.size(0),
                      .weight_stride = w.stride(0),
                      .factor_stride = factor.stride(0),
                      .columns = static_cast<int>(columns),
                      .levels = static_cast<float>(levels)},
                     current_stream(w));
    return error;
  }
  const at::Tensor columns_first = w.t().contiguous();
  const at::Tensor error = at::empty_like(columns_first);
  for (std::int64_t j = 0; j < columns; ++j) {
    const at::Tensor column = columns_first[j], u = factor[j].slice(0, j);
    const at::Tensor rounded = round_to_levels(column, scale, -levels, levels);
    q.select(1, j).copy_(rounded);
    error[j].copy_((column - rounded * scale) / u[0]);
    columns_first.slice(0, j).sub_(u.unsqueeze(1) * error[j]);
  }
  return error.t().contiguous();
}

}  // namespace

GptqWeight gptq(const at::Tensor& weight, const HessianFactor& hessian, const GptqOptions& options,
                std::string_view name) {
  const at::NoGradGuard no_grad;
  const at::NoTF32Guard in_fp32;
  const at::Tensor original = finite_fp32(weight, name);
  const at::Tensor& upper = hessian.upper;
  const auto columns = original.size(1);
  assert(upper.size(0) == columns);
  const at::Tensor scale = row_scales(original, options), scale_fp32 = scale.to(at::kFloat);
  const double levels = symmetric_levels(options.bits);
  const at::Tensor kept = options.zero_dead ? original.masked_fill(hessian.dead, 0) : original;
  const at::Tensor w = kept.index_select(1, hessian.order);
  const at::Tensor q = at::empty(w.sizes(), w.options().dtype(at::kChar));
  assert(w.is_contiguous() &&
         upper.is_contiguous());  // precondition of round_block on the strides of its slices
  for (std::int64_t first = 0; first < columns; first += cuda::kGptqBlock) {
    const auto end = std::min(first + cuda::kGptqBlock, columns);
    const at::Tensor upper_rows = upper.slice(0, first, end);
    const at::Tensor error = round_block(w.slice(1, first, end), upper_rows.slice(1, first, end),
                                         scale_fp32, levels, q.slice(1, first, end));
    if (end < columns) w.slice(1, end).sub_(at::matmul(error, upper_rows.slice(1, end)));
  }
  return {{q.index_select(1, hessian.order.argsort()), scale}, options.bits, std::nullopt};
}

GptqWeight round_to_nearest(const at::Tensor& weight, const GptqOptions& options,
                            std::string_view name) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = finite_fp32(weight, name), scale = row_scales(w, options);
  const double levels = symmetric_levels(options.bits);
  const at::Tensor q = round_to_levels(w, scale.to(at::kFloat).unsqueeze(1), -levels, levels);
  return {{q.to(at::kChar), scale}, options.bits, std::nullopt};
}

void correct_largest_errors(const std::vector<at::Tensor>& weights,
                            std::vector<GptqWeight>& quantized, std::int64_t top_k,
                            const LqerOptions& options) {
  const at::NoGradGuard no_grad;
  assert(weights.size() == quantized.size());
  if (weights.empty()) return;
  const auto quantization_error = [&](std::size_t i) {
    return weights[i].to(at::kFloat) - dequantize(quantized[i].weight);
  };
  std::vector<at::Tensor> norms;
  for (std::size_t i = 0; i < weights.size(); ++i)
    norms.push_back(at::linalg_vector_norm(quantization_error(i)));
  const at::Tensor order = at::stack(norms).argsort(/*stable=*/true, 0, /*descending=*/true).cpu();
  const auto count = std::min(top_k, order.numel());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(order.const_data_ptr<std::int64_t>()[i]);
    quantized[index].correction = low_rank_of(quantization_error(index), options);
  }
}

}  // namespace tg
