#pragma once
#include "ops/gemm/linear.h"

namespace tg {

// mlp() of weights with `fp8`, on Hopper; x in any form but scaled by row.
// Between the GEMMs there is the activation and its gradient as e4m3 rows, which the next one
// reads, and transposed, which the weights' gradients are computed from; the transposed activation
// and a sign bit per element are saved for backward.
at::Tensor fp8_mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
                   bool recompute);

}  // namespace tg
