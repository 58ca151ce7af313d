#pragma once
#include <ATen/ATen.h>

namespace tg {

// y = u² with u = x where x > 0, else slope·x; slope 0 is ReLU squared (So et al. 2021). Any shape.
// dx = dy·2u·(1 where x > 0, else slope).
at::Tensor leaky_relu_squared(const at::Tensor& x, double slope);

}  // namespace tg
