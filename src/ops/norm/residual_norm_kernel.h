#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

// Kernels of ops/norm/residual_norm.h. A null pointer leaves its term out. Tensors are [count,
// width], all of one dtype, parameters fp32; all contiguous, at addresses that are multiples of 16
// bytes. The width is a multiple of 8 and at most kMaxResidualNormWidth.
inline constexpr int kMaxResidualNormWidth = 2048;

struct ResidualNormRows {
  std::int64_t count;
  int width, channels;  // the mean of the norm is over `channels` of the width
  Dtype dtype;
  float norm_scale;
};
struct ResidualNormTerms {
  const void *x = nullptr, *branch = nullptr, *skip = nullptr, *x0 = nullptr;
  const float *skip_weight = nullptr, *mix = nullptr;
  bool mix_is_vector = false;  // mix [2, width], else [2]
  // Factor on x + branch beside the skip's weight [width]; only with a mix, also without a skip.
  const float* sum_share = nullptr;
};
// Writes s, x' (`residual`), y and norm_scale/rms [count]; a null one is not written. `y_copy`: of
// y, written or not, in bf16 alone.
void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows, void* sum,
                           void* residual, void* y, float* row_scale, const Fp8Copy& y_copy,
                           Stream stream);

// Backward takes the same terms. Without a mix, x is x' instead, `branch` is not needed, and `skip`
// only for skip_weight's gradient. dx is dbranch as well.
struct ResidualNormGradients {
  // Upstream; null: zero.
  const void *dsum = nullptr, *dresidual = nullptr, *dy = nullptr, *dx0_later = nullptr;
  // Null: not needed; dx0 may be dx0_later.
  void *dx = nullptr, *dskip = nullptr, *dx0 = nullptr;
  Fp8Copy dx_copy{};          // in bf16 alone
  bool dy_is_scaled = false;  // by norm_scale/rms already
};

// The gradients of the parameters are one row of fp32: vectors for mix[0], mix[1], sum_share and
// skip_weight, without those after the last that exists and without a sum_share that does not; then
// the two elements of a scalar mix.
inline int residual_norm_vectors(const ResidualNormTerms& terms) {
  if (terms.sum_share != nullptr) return 4;
  return terms.skip != nullptr ? 3 : terms.mix_is_vector ? 2 : 0;
}
inline std::int64_t residual_norm_columns(const ResidualNormTerms& terms,
                                          const ResidualNormRows& rows) {
  const bool scalar_mix = terms.mix != nullptr && !terms.mix_is_vector;
  return std::int64_t{residual_norm_vectors(terms)} * rows.width + (scalar_mix ? 2 : 0);
}
// Blocks of the backward kernel; each writes one such row of partial sums.
int residual_norm_blocks(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                         bool copies_dx);

// Gradients of mix, and of skip_weight or both shares, [2, width].
struct ResidualNormSums {
  SumTarget mix{}, skip{};
};
// partials [blocks, columns] are the workspace; null where `columns` is 0.
void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, int blocks, float* partials,
                            const ResidualNormSums& sums, Stream stream);

}  // namespace tg::cuda
