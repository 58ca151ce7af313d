#pragma once
#include <ATen/ATen.h>

#include "ops/mlp/mlp_hopper.h"

namespace tg {

// Makes the shape for x [..., D] and the matrix up [F, D].
inline cuda::MlpShape mlp_shape(const at::Tensor& x, const at::Tensor& up) {
  return {.rows = static_cast<int>(x.numel() / x.size(-1)),
          .dim = static_cast<int>(up.size(1)),
          .hidden = static_cast<int>(up.size(0))};
}

}  // namespace tg
