#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

// Kernels of ops/norm/residual_norm.h. A null pointer omits its term. Tensors are [count, width],
// all of one dtype, parameters fp32; all contiguous and 16-byte aligned. The width is a multiple of
// 8 and at most kMaxResidualNormWidth.
inline constexpr int kMaxResidualNormWidth = 2048;

struct ResidualNormRows {
  std::int64_t count;
  int width, channels;  // the norm's mean is over `channels`, without padding
  Dtype dtype;
  float norm_scale;
};
struct ResidualNormTerms {
  const void *x = nullptr, *branch = nullptr, *skip = nullptr, *x0 = nullptr;
  const float *skip_weight = nullptr, *mix = nullptr;
  bool mix_is_vector = false;  // mix [2, width], else [2]
  // Coefficient [width] of x + branch, next to skip_weight; requires a mix, but no skip.
  const float* sum_blend = nullptr;
};
// Writes x + branch (`sum`), x' (`residual`), y and norm_scale/rms [count] (`row_scale`); null: not
// written. `y_copy`: FP8 copy of y (bf16 only), also if y is null.
void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows, void* sum,
                           void* residual, void* y, float* row_scale, const Fp8Copy& y_copy,
                           Stream stream);

// Backward takes the forward pass's terms. Without a mix, x must be x' instead, `branch` is not
// needed, and `skip` only for skip_weight's gradient. dx is also the branch's gradient.
struct ResidualNormGradients {
  // Upstream; null: zero.
  const void *dsum = nullptr, *dresidual = nullptr, *dy = nullptr, *dx0_later = nullptr;
  // Null: not needed; dx0 may be dx0_later.
  void *dx = nullptr, *dskip = nullptr, *dx0 = nullptr;
  Fp8Copy dx_copy{};          // bf16 only
  bool dy_is_scaled = false;  // already multiplied by norm_scale/rms
};

// Layout of the fp32 row of parameter gradients: vectors for mix[0], mix[1], sum_blend (omitted if
// null) and skip_weight, up to the last that exists; then the two elements of a scalar mix. Returns
// the number of vectors.
inline int residual_norm_vectors(const ResidualNormTerms& terms) {
  if (terms.sum_blend != nullptr) return 4;
  return terms.skip != nullptr ? 3 : terms.mix_is_vector ? 2 : 0;
}
inline std::int64_t residual_norm_columns(const ResidualNormTerms& terms,
                                          const ResidualNormRows& rows) {
  const bool scalar_mix = terms.mix != nullptr && !terms.mix_is_vector;
  return std::int64_t{residual_norm_vectors(terms)} * rows.width + (scalar_mix ? 2 : 0);
}
// Number of CTAs of the backward kernel; each writes one row of partial sums.
int residual_norm_blocks(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                         bool copies_dx);

// Targets for the gradients of mix, and of skip_weight or of sum_blend and skip_weight [2, width].
struct ResidualNormSums {
  SumTarget mix{}, skip{};
};
// partials [blocks, residual_norm_columns()] is the workspace; null if there are no columns.
void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, int blocks, float* partials,
                            const ResidualNormSums& sums, Stream stream);

}  // namespace tg::cuda
