#pragma once
// Arguments and outputs shared by residual_norm and lanes_norm.
#include <ATen/ATen.h>

#include <cassert>

#include "ops/kernels.h"
#include "ops/norm/residual_norm.h"
#include "ops/norm/residual_norm_kernel.h"
#include "ops/norm/sum_rows.h"

namespace tg {

// Non-differentiable outputs for y: row scale and FP8 copy. Undefined: not written.
struct NormOutputs {
  NormedForm form = NormedForm::materialized;
  at::Tensor row_scale{}, rounded{};

  bool writes_y() const { return form == NormedForm::materialized; }
  // Wraps the differentiable output: y if it is materialized, else the tensor in its place.
  NormedInput input(const at::Tensor& tensor) const {
    if (form == NormedForm::deferred_scale) return NormedInput::deferred_scale(tensor, row_scale);
    return writes_y() ? NormedInput(tensor, rounded) : NormedInput::quantized(tensor, rounded);
  }
};
// Allocates the outputs for rows like x's.
inline NormOutputs norm_outputs(const at::Tensor& x, const NormOptions& norm) {
  const auto form = x.scalar_type() == at::kBFloat16 ? norm.form : NormedForm::materialized;
  const bool in_fp8 = form == NormedForm::quantized, scaled = form == NormedForm::deferred_scale;
  assert(in_fp8 ? norm.rounding.defined() : !scaled || !norm.rounding.defined());
  const auto fp32 = x.options().dtype(at::kFloat);
  return {.form = form,
          .row_scale = scaled ? at::empty({x.numel() / x.size(-1)}, fp32) : at::Tensor(),
          .rounded = empty_fp8_like(x, norm.rounding)};
}

// Returns the tensor for `parameter`'s gradient, a sum over rows: `accumulated`
// (MixWeight::gradient), or a new one.
inline at::Tensor sums_of(const at::Tensor& parameter, const at::Tensor& accumulated) {
  return accumulated.defined() ? accumulated : at::empty(parameter.sizes(), parameter.options());
}
inline cuda::SumTarget sum_target(const at::Tensor& sums, const at::Tensor& accumulated) {
  return {mutable_fp32_data(sums), accumulated.defined()};
}

// Makes the kernels' row arguments for x [..., D]; `channels` as in NormOptions.
inline cuda::ResidualNormRows residual_norm_rows(const at::Tensor& x, double norm_scale,
                                                 std::int64_t channels) {
  return {.count = x.numel() / x.size(-1),
          .width = static_cast<int>(x.size(-1)),
          .channels = static_cast<int>(channels == 0 ? x.size(-1) : channels),
          .dtype = dtype_of(x),
          .norm_scale = static_cast<float>(norm_scale)};
}

}  // namespace tg
