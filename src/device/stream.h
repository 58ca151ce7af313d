#pragma once
#include <ATen/core/Tensor.h>

#include "device/launch.h"

namespace tg {

// The current stream of x's device; null in a build without CUDA.
cuda::Stream current_stream(const at::Tensor& x);
// Returns whether x is on a GPU, where kernels can read and write it.
bool is_on_gpu(const at::Tensor& x);

}  // namespace tg
