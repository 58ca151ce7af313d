#pragma once
// What residual_norm and lanes_norm pass to and take from their kernels alike.
#include <cassert>

#include "ops/kernels.h"
#include "ops/norm/residual_norm.h"
#include "ops/norm/sum_rows.h"

namespace tg {

// Where the kernel writes of y what autograd does not follow; undefined: it does not.
struct NormOutputs {
  NormedForm form = NormedForm::written;
  at::Tensor row_scale{}, rounded{};

  bool writes_y() const { return form == NormedForm::written; }
  // Returns y if it is materialized, else the tensor that autograd follows in its place.
  NormedInput input(const at::Tensor& tensor) const {
    if (form == NormedForm::scaled_by_row) return NormedInput::scaled_by_row(tensor, row_scale);
    return writes_y() ? NormedInput(tensor, rounded) : NormedInput::in_fp8(tensor, rounded);
  }
};
// Returns the outputs for rows like x's.
inline NormOutputs norm_outputs(const at::Tensor& x, const NormOptions& norm) {
  const auto form = x.scalar_type() == at::kBFloat16 ? norm.form : NormedForm::written;
  const bool in_fp8 = form == NormedForm::in_fp8, scaled = form == NormedForm::scaled_by_row;
  assert(in_fp8 ? norm.rounding.defined() : !scaled || !norm.rounding.defined());
  const auto fp32 = x.options().dtype(at::kFloat);
  return {.form = form,
          .row_scale = scaled ? at::empty({x.numel() / x.size(-1)}, fp32) : at::Tensor(),
          .rounded = empty_fp8_like(x, norm.rounding)};
}

// Where the sums over rows for the gradient of `parameter` go: `accumulated` (MixWeight), or a new
// tensor.
inline at::Tensor sums_of(const at::Tensor& parameter, const at::Tensor& accumulated) {
  return accumulated.defined() ? accumulated : at::empty(parameter.sizes(), parameter.options());
}
inline cuda::SumTarget sum_target(const at::Tensor& sums, const at::Tensor& accumulated) {
  return {mutable_fp32_data(sums), accumulated.defined()};
}

}  // namespace tg
