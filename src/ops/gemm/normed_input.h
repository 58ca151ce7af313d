#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "ops/gemm/fp8.h"

namespace tg {

// How a norm passes its rows to the GEMMs that read them.
enum class NormedForm {
  written,
  scaled_by_row,  // the rows before the norm, and what each is to be multiplied by: the normed ones
                  // are never written, the GEMM scales the rows of its output
  in_fp8,         // quantized for one FP8 GEMM, and nothing else
};

// The normalised rows [..., D] that GEMMs read. Any tensor is one that is written.
class NormedInput {
 public:
  NormedInput() = default;
  // `rounded`: the same rows in e4m3, if they are there, too.
  NormedInput(at::Tensor rows, at::Tensor rounded = {})  // NOLINT(google-explicit-constructor)
      : tensor_(std::move(rows)), rounded_(std::move(rounded)) {}
  // row_scale [rows of x] fp32: a constant to autograd.
  static NormedInput scaled_by_row(at::Tensor x, at::Tensor row_scale);
  static NormedInput in_fp8(at::Tensor x, at::Tensor rounded);

  NormedForm form() const { return form_; }
  // The tensor that autograd follows: materialized rows, else x, the rows before the norm, whose
  // gradient is d(norm(x)) · row_scale with a deferred scale.
  const at::Tensor& tensor() const { return tensor_; }
  // What the GEMM scales its rows by, undefined: 1.
  const at::Tensor& row_scale() const { return row_scale_; }
  // The rows themselves; where they are scaled by row, a pass over them. Never where they are in
  // FP8 alone.
  at::Tensor rows() const;
  // Channels [first, first + count) of the rows(), for what reads no more.
  at::Tensor columns(std::int64_t first, std::int64_t count) const;
  // The rows in e4m3: as the norm has rounded them, with this scaling, or by a pass over them.
  at::Tensor rounded(const Fp8Scaling& scaling) const;
  // Returns the rows materialized.
  NormedInput written() const;
  // Returns a copy whose tensor() kernels can read: aligned_contiguous() of ops/kernels.h.
  NormedInput contiguous() const;
  // As matrices [rows, D].
  NormedInput flat() const;

 private:
  NormedForm form_ = NormedForm::written;
  at::Tensor tensor_, row_scale_, rounded_;
};

}  // namespace tg
