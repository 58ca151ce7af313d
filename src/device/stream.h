#pragma once
#include <ATen/core/Tensor.h>

#include "device/launch.h"

namespace tg {

// The stream that is current on x's device; null where the program was built without CUDA.
cuda::Stream current_stream(const at::Tensor& x);

}  // namespace tg
