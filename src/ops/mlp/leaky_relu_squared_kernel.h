#pragma once
#include "device/launch.h"

namespace tg::cuda {

// See leaky_relu_squared.h. `count` numbers each, of one type, from addresses that are
// multiples of 16 bytes.
void leaky_relu_squared_forward(const void* x, void* y, std::int64_t count, float slope,
                                Float number, Stream stream);
void leaky_relu_squared_backward(const void* x, const void* dy, void* dx, std::int64_t count,
                                 float slope, Float number, Stream stream);

}  // namespace tg::cuda
