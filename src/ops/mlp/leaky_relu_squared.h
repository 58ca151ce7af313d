#pragma once
#include <ATen/ATen.h>

namespace tg {

// Computes y = u² with u = x if x > 0, else slope·x; slope 0 is ReLU squared (So et al. 2021). Any
// shape. dx = dy·2u·(1 if x > 0, else slope).
at::Tensor leaky_relu_squared(const at::Tensor& x, double slope);
// Returns dx, for autograd Functions that save x themselves.
at::Tensor leaky_relu_squared_backward(const at::Tensor& x, const at::Tensor& dy, double slope);

}  // namespace tg
