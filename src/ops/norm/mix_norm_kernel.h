#pragma once
#include "ops/norm/residual_norm_kernel.h"

namespace tg::cuda {

// Kernels of ops/norm/mix_norm.h. Tensors are [count, width], as for residual_norm.
inline constexpr int kMaxMixTerms = 6;

// Coefficient of a term: one number for each row, `row_stride` elements apart, or with stride 0 one
// for all rows; fp32 or of the rows' dtype. Null: 1.
struct MixCoefficient {
  const void* value = nullptr;
  std::int64_t row_stride = 0;
  bool is_fp32 = true;
};
struct MixNormTerms {
  int count = 0;
  const void* terms[kMaxMixTerms] = {};
  MixCoefficient coefficients[kMaxMixTerms] = {};
};
// `normed`: of the sum x'; null: there is no norm.
void mix_norm_forward(const MixNormTerms& terms, const ResidualNormRows& rows, void* sum,
                      const NormedRows* normed, Stream stream);

// Gradient of a coefficient for each row, of the coefficient's dtype; null: not needed.
struct MixCoefficientGradient {
  void* to = nullptr;
  std::int64_t row_stride = 0;
  bool adds = false;
};
struct MixNormGradients {
  const void* sum = nullptr;  // x'; needed with dy
  // Upstream; null: zero.
  const void *dsum = nullptr, *dy = nullptr;
  bool dy_is_scaled = false;  // already multiplied by norm_scale/rms
  // Null: not needed. A term itself is needed for its coefficient's gradient.
  void* dterms[kMaxMixTerms] = {};
  bool adds[kMaxMixTerms] = {};  // to dterms, instead of writing it
  MixCoefficientGradient by_row[kMaxMixTerms] = {};
  int copied = -1;  // the term whose gradient has an FP8 copy (bf16 only)
  Fp8Copy copy{};
};
// `scalars` [count]: gradients of the coefficients that all rows share, null if there are none.
void mix_norm_backward(const MixNormTerms& terms, const ResidualNormRows& rows,
                       const MixNormGradients& gradients, float* scalars,
                       const Workspace& workspace, Stream stream);

}  // namespace tg::cuda
