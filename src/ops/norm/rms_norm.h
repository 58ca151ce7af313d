#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// y = x / sqrt(mean(x²) + 1.1920929e-07) over the last dimension, without a weight (Zhang and
// Sennrich 2019). Computed in fp32 (fp64 for fp64), returned in x's dtype; any shape [..., D]. The
// mean is over `channels`, if not 0, of which D has more: the others are zero.
at::Tensor rms_norm(const at::Tensor& x, std::int64_t channels = 0);

}  // namespace tg
