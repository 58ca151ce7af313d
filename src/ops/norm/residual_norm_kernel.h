#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

// Kernels of ops/norm/residual_norm.h. A null pointer omits its term. Tensors are [count, width],
// all of one dtype, parameters fp32; all contiguous and 16-byte aligned. The width is a multiple of
// 8 and at most kMaxResidualNormWidth.
inline constexpr int kMaxResidualNormWidth = 2048;
inline constexpr int kLaneTerms = 4;

struct ResidualNormRows {
  std::int64_t count;
  int width, channels;  // the norm's mean is over `channels`, without padding
  Dtype dtype;
  float norm_scale;
};
struct ResidualNormTerms {
  int lanes = 1;
  // One lane without weights has at most x and the branch.
  const void* terms[kLaneTerms] = {};
  const float* weights = nullptr;  // [lanes, kLaneTerms]; null: 1
  // Lane 0 alone has these, a single lane with weights has none.
  const void *skip = nullptr, *x0 = nullptr;
  // Coefficients [width] of the skip and, if there is a mix, of the sum before it.
  const float *skip_weight = nullptr, *sum_blend = nullptr;
  const float* mix = nullptr;
  bool mix_is_vector = false;  // mix [2, width], else [2], which requires one lane
  float norm_scale_1 = 1;      // lane 1's; lane 0 has rows.norm_scale
};
// Outputs of a norm: y, norm_scale/rms [count], and y's FP8 copy (bf16 only), also if y is null.
// Null: not written.
struct NormedRows {
  void* y = nullptr;
  float* row_scale = nullptr;
  Fp8Copy copy{};
};
// `lanes`: a single lane is the sum after the mix, the first of two the sum before it. Null: not
// written.
struct ResidualNormOutputs {
  void* sum = nullptr;  // x + branch; only one lane without weights writes it
  void* lanes[2] = {};
  void* mixed = nullptr;  // input of the first norm of two lanes
  NormedRows normed[2] = {};
};
void residual_norm_forward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                           const ResidualNormOutputs& outputs, Stream stream);

// Backward takes the forward pass's terms. For one lane without weights and mix, x must be x'
// instead, `branch` is not needed, and `skip` only for skip_weight's gradient.
struct ResidualNormGradients {
  // Upstream; null: zero.
  const void *dsum = nullptr, *dlanes[2] = {}, *dy[2] = {}, *dx0_later = nullptr;
  bool dy_is_scaled[2] = {};  // already multiplied by norm_scale/rms
  // Null: not needed; dx0 may be dx0_later. The terms of one lane without weights share dterms[0].
  void *dterms[kLaneTerms] = {}, *dskip = nullptr, *dx0 = nullptr;
  // bf16 only: copies[0] copies that shared gradient; else they copy the last two terms' gradients.
  Fp8Copy copies[2] = {};
};
// Targets for the gradients of mix, of skip_weight or of sum_blend and skip_weight [2, width], and
// of weights.
struct ResidualNormSums {
  SumTarget mix{}, skip{}, weights{};
};
void residual_norm_backward(const ResidualNormTerms& terms, const ResidualNormRows& rows,
                            const ResidualNormGradients& gradients, const ResidualNormSums& sums,
                            const Workspace& workspace, Stream stream);

}  // namespace tg::cuda
