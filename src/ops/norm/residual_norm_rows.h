#pragma once
#include <ATen/ATen.h>

#include "ops/kernels.h"
#include "ops/norm/residual_norm_kernel.h"

namespace tg {

// Makes the kernels' row arguments for x [..., D]; `channels` as in NormOptions.
inline cuda::ResidualNormRows residual_norm_rows(const at::Tensor& x, double norm_scale,
                                                 std::int64_t channels) {
  return {.count = x.numel() / x.size(-1),
          .width = static_cast<int>(x.size(-1)),
          .channels = static_cast<int>(channels == 0 ? x.size(-1) : channels),
          .dtype = dtype_of(x),
          .norm_scale = static_cast<float>(norm_scale)};
}

}  // namespace tg
