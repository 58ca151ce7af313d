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
// Takes the forward pass's terms.
void lanes_norm_backward(const LanesNormTerms& terms, const ResidualNormRows& rows,
                         const LanesNormGradients& gradients, const LanesNormSums& sums,
                         const Workspace& workspace, Stream stream);

}  // namespace tg::cuda
