#pragma once
// Arguments and outputs shared by residual_norm and mix_norm.
#include <ATen/ATen.h>

#include <cassert>

#include "ops/kernels.h"
#include "ops/norm/residual_norm.h"
#include "ops/norm/residual_norm_kernel.h"

namespace tg {

// Outputs of a norm's kernel; undefined: not written. Only y is differentiable.
struct NormOutputs {
  NormOptions norm{};  // with the form of y
  at::Tensor y{}, row_scale{}, rounded{};

  bool defers_scale() const { return row_scale.defined(); }
  cuda::NormedRows pointers() const {
    return {mutable_data(y), mutable_fp32_data(row_scale), fp8_copy(rounded, norm.rounding)};
  }
  // Wraps the differentiable output: y if it is materialized, else the tensor in its place.
  NormedInput input(const at::Tensor& tensor) const {
    if (defers_scale()) return NormedInput::deferred_scale(tensor, row_scale);
    return y.defined() ? NormedInput(tensor, rounded) : NormedInput::quantized(tensor, rounded);
  }
};
// Allocates the outputs for rows like x's.
inline NormOutputs norm_outputs(const at::Tensor& x, const NormOptions& options) {
  auto norm = options;
  if (x.scalar_type() != at::kBFloat16) norm.form = NormedForm::materialized;
  const bool in_fp8 = norm.form == NormedForm::quantized;
  const bool scaled = norm.form == NormedForm::deferred_scale;
  assert(in_fp8 ? norm.rounding.defined() : !scaled || !norm.rounding.defined());
  const auto fp32 = x.options().dtype(at::kFloat);
  return {.norm = norm,
          .y = in_fp8 || scaled ? at::Tensor() : at::empty(x.sizes(), x.options()),
          .row_scale = scaled ? at::empty({x.numel() / x.size(-1)}, fp32) : at::Tensor(),
          .rounded = empty_fp8_like(x, norm.rounding)};
}

// Directs a parameter's gradient, a sum over rows, to `accumulated` (MixWeight::gradient) if it is
// defined, else to a new tensor.
inline cuda::SumTarget sum_target(at::Tensor& gradient, const at::Tensor& parameter,
                                  const at::Tensor& accumulated) {
  if (!parameter.defined()) return {};
  gradient = accumulated.defined() ? accumulated : at::empty_like(parameter);
  return {mutable_fp32_data(gradient), accumulated.defined()};
}

// Makes the kernels' row arguments for x [..., D].
inline cuda::ResidualNormRows norm_rows(const at::Tensor& x, const NormOptions& norm) {
  return {.count = x.numel() / x.size(-1),
          .width = static_cast<int>(x.size(-1)),
          .channels = static_cast<int>(norm.channels == 0 ? x.size(-1) : norm.channels),
          .dtype = dtype_of(x),
          .norm_scale = static_cast<float>(norm.scale)};
}

}  // namespace tg
