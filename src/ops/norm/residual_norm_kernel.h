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
// Outputs of a norm: y, norm_scale/rms [count], and y's FP8 copy (bf16 only), also if y is null.
// Null: not written.
struct NormedRows {
  void* y = nullptr;
  float* row_scale = nullptr;
  Fp8Copy copy{};
};
// Writes x + branch (`sum`), x' (`residual`) and its norm; null: not written.
void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows, void* sum,
                           void* residual, const NormedRows& normed, Stream stream);

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

// Targets for the gradients of mix, and of skip_weight or of sum_blend and skip_weight [2, width].
struct ResidualNormSums {
  SumTarget mix{}, skip{};
};
void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, const ResidualNormSums& sums,
                            const Workspace& workspace, Stream stream);

}  // namespace tg::cuda
