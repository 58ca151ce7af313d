#pragma once
#include "device/launch.h"

namespace tg::cuda {

// Kernels of ops/mlp/leaky_relu_squared.h. All tensors have `count` contiguous elements of `dtype`
// and are 16-byte aligned.
void leaky_relu_squared_forward(const void* x, void* y, std::int64_t count, float slope,
                                Dtype dtype, Stream stream);
void leaky_relu_squared_backward(const void* x, const void* dy, void* dx, std::int64_t count,
                                 float slope, Dtype dtype, Stream stream);

}  // namespace tg::cuda
