#pragma once
// The own CUDA kernels behind the operations of this folder. Implemented in cuda/*.cu, or in
// no_cuda/ where nvcc was not found: kernels_built() is then false and the others are never called.
#include <ATen/ATen.h>

namespace tg {

bool kernels_built();

// Contiguous x and dy of one shape, fp32, bf16 or fp16, on the GPU; see leaky_relu_squared.h.
at::Tensor leaky_relu_squared_forward_cuda(const at::Tensor& x, double slope);
at::Tensor leaky_relu_squared_backward_cuda(const at::Tensor& dy, const at::Tensor& x,
                                            double slope);

}  // namespace tg
