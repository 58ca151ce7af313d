#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// RMSNorm without a weight (Zhang and Sennrich 2019): y = x / sqrt(mean(x²) + 1.1920929e-07) over
// the last dimension. Computed in fp32 (fp64 for fp64), returned in x's dtype; any shape [..., D].
// `channels`: number of channels of D without padding, for the mean; the others are zero. 0: all.
at::Tensor rms_norm(const at::Tensor& x, std::int64_t channels = 0);

}  // namespace tg
