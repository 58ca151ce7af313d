#pragma once
#include <ATen/ATen.h>

namespace tg {

// y = x / sqrt(mean(x²) + 1.1920929e-07) over the last dimension, without a weight (Zhang and
// Sennrich 2019). Computed in fp32 (fp64 for fp64), returned in x's dtype; any shape [..., D].
at::Tensor rms_norm(const at::Tensor& x);

}  // namespace tg
