#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "ops/gemm/fp8.h"

namespace tg {

// How a norm passes its rows to the GEMMs that read them.
enum class NormedForm {
  materialized,    // materialized in the compute dtype
  deferred_scale,  // the rows before the norm and a scale per row: the normalized rows are not
                   // materialized, the GEMM's epilogue scales the rows of its output
  quantized,       // quantized for one FP8 GEMM, not materialized in the compute dtype
};

// The normalized rows [..., D] that GEMMs read. Any tensor converts to a materialized input.
class NormedInput {
 public:
  NormedInput() = default;
  // `rounded`: the same rows in e4m3, if available.
  NormedInput(at::Tensor rows, at::Tensor rounded = {})  // NOLINT(google-explicit-constructor)
      : tensor_(std::move(rows)), rounded_(std::move(rounded)) {}
  // row_scale: [rows of x] fp32, not differentiated.
  static NormedInput deferred_scale(at::Tensor x, at::Tensor row_scale);
  static NormedInput quantized(at::Tensor x, at::Tensor rounded);

  NormedForm form() const { return form_; }
  // The tensor that autograd differentiates: the rows if they are materialized, else x. Its
  // gradient is d(rows), or d(rows)·row_scale if scaled by row.
  const at::Tensor& tensor() const { return tensor_; }
  // Scale of each row of the GEMM's output; undefined: 1.
  const at::Tensor& row_scale() const { return row_scale_; }
  // Returns the normalized rows; computes them if they are scaled by row. Precondition: form() is
  // not quantized.
  at::Tensor rows() const;
  // Returns channels [first, first + count) of rows(), without computing the others.
  at::Tensor columns(std::int64_t first, std::int64_t count) const;
  // Returns the rows in e4m3: the norm's FP8 copy, made with this scaling, or else to_fp8().
  at::Tensor rounded(const Fp8Scaling& scaling) const;
  // Returns this input in the form quantized, with the rows of rounded(scaling).
  NormedInput in_fp8(const Fp8Scaling& scaling) const;
  // The rows that the weight gradient's GEMM reads: in e4m3 if the form is quantized, else
  // tensor().
  const at::Tensor& saved() const { return form_ == NormedForm::quantized ? rounded_ : tensor_; }
  // Returns this input with its rows materialized.
  NormedInput materialized() const;
  // Returns this input with an alias of tensor() in its place, for autograd.
  NormedInput with_tensor(at::Tensor alias) const;
  // Returns this input with tensor() aligned and contiguous, as kernels require.
  NormedInput contiguous() const;
  // Returns this input flattened to [rows, D].
  NormedInput flat() const;

 private:
  NormedForm form_ = NormedForm::materialized;
  at::Tensor tensor_, row_scale_, rounded_;
};

}  // namespace tg
