#pragma once
#include "ops/norm/residual_norm_kernel.h"

namespace tg::cuda {

// Kernels of ops/norm/lanes_norm.h. Tensors, rows, null pointers and the width limit are as in
// residual_norm_kernel.h.
inline constexpr int kLaneTerms = 4;

struct LanesNormTerms {
  const void* terms[kLaneTerms] = {};
  // [lanes, kLaneTerms]; null: all 1, and all terms share one gradient, dterms of the last term.
  const float* weights = nullptr;
  int lanes = 2;
  // For lane 0 of two lanes.
  const void *skip = nullptr, *x0 = nullptr;
  const float *blend = nullptr, *mix = nullptr;  // [2, width]
  float norm_scale_1 = 1;                        // of lane 1; lane 0 has rows.norm_scale
};

// Outputs of a norm: y, norm_scale/rms [count], and y's FP8 copy (bf16 only).
struct NormedRows {
  void* y = nullptr;
  float* row_scale = nullptr;
  Fp8Copy copy{};
};
struct LanesNormOutputs {
  void *lane0 = nullptr, *lane1 = nullptr, *mixed = nullptr;
  NormedRows y0{}, y1{};
};
void lanes_norm_forward(const LanesNormTerms& terms, const ResidualNormRows& rows,
                        const LanesNormOutputs& outputs, Stream stream);

struct LanesNormGradients {
  // Upstream; null: zero.
  const void *dlane0 = nullptr, *dlane1 = nullptr, *dy0 = nullptr, *dy1 = nullptr,
             *dx0_later = nullptr;
  bool dy0_is_scaled = false, dy1_is_scaled = false;  // already multiplied by norm_scale/rms
  // Null: not needed; dx0 may be dx0_later.
  void* dterms[kLaneTerms] = {};
  void *dskip = nullptr, *dx0 = nullptr;
  Fp8Copy copies[2] = {};  // of the last two terms' gradients (bf16 only)
};
struct LanesNormSums {
  SumTarget mix{}, blend{}, weights{};
};
// Length of the fp32 row of parameter gradients: with two lanes mix and blend, whether they exist
// or not, then weights.
inline std::int64_t lanes_norm_columns(const LanesNormTerms& terms, const ResidualNormRows& rows) {
  return terms.lanes == 2 ? std::int64_t{4} * rows.width + 2 * kLaneTerms : kLaneTerms;
}
// Number of CTAs of the backward kernel; each writes one row of partial sums.
int lanes_norm_blocks(const LanesNormTerms& terms, const ResidualNormRows& rows, bool copies);
// Takes the forward pass's terms. partials [blocks, columns] is the workspace.
void lanes_norm_backward(const LanesNormTerms& terms, const ResidualNormRows& rows,
                         const LanesNormGradients& gradients, int blocks, float* partials,
                         const LanesNormSums& sums, Stream stream);

}  // namespace tg::cuda
