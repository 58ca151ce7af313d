#pragma once
#include "device/launch.h"

namespace tg::cuda {

// See mlp.h. bf16; all matrices row-major and contiguous, at addresses that are multiples of 16
// bytes, `dim` and `hidden` multiples of 8.
struct MlpShape {
  int rows, dim, hidden;  // tokens, D, F
};

// One bit a number of the activation, in an order that only these kernels know.
std::int64_t mlp_sign_bytes(const MlpShape& shape);

// activation = leaky_relu_squared(x·upᵀ) [rows, F] of x [rows, D] and up [F, D]; `signs`, of the
// product, may be null.
void mlp_up(const MlpShape& shape, const void* x, const void* up, float slope, void* activation,
            void* signs, Stream stream);

// The gradient [rows, F] of x·upᵀ, from dy [rows, D] and down [D, F]: dy·down, times u'·2u, which
// the activation and the signs tell.
void mlp_down_backward(const MlpShape& shape, const void* dy, const void* down,
                       const void* activation, const void* signs, float slope, void* gradient,
                       Stream stream);

}  // namespace tg::cuda
