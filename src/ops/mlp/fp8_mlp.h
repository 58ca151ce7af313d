#pragma once
#include "ops/fused.h"
#include "ops/gemm/linear.h"
#include "ops/mlp/mlp_hopper.h"

namespace tg {

// Makes the kernels' shape for x [..., D] and the matrix up [F, D].
inline cuda::MlpShape mlp_shape(const at::Tensor& x, const at::Tensor& up) {
  return {.rows = static_cast<int>(x.numel() / x.size(-1)),
          .dim = static_cast<int>(up.size(1)),
          .hidden = static_cast<int>(up.size(0))};
}

// mlp() with FP8 weights, on a GPU; x must not be scaled by row. The activation and its gradient
// are written in e4m3 both as rows, for the next GEMM, and transposed, for the weight-gradient
// GEMMs: by Kernel::hopper_fp8 in GEMM epilogues, so that nothing of width F is in 16 bits, by
// Kernel::cuda_fp8 after the GEMMs. The transposed activation and a sign bit per element are saved
// for backward.
at::Tensor fp8_mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
                   bool recompute, Kernel kernel);

}  // namespace tg
