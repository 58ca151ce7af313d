#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// A matrix for each row of a batch [B, out, in], in the compute dtype, and the place of its
// gradient, which every backward pass overwrites, so that it need not be cleared, in its own dtype,
// without rounding to half precision.
struct BatchedWeight {
  at::Tensor value;
  at::Tensor gradient;   // [B, out, in]
  at::Tensor leaf;       // what autograd follows in its place; its gradient is left alone
  at::Tensor row_scale;  // [out] or [1] that `value` has been multiplied by, and the gradient is to
                         // be; undefined: 1
  // What backward passes have multiplied all gradients by (loss scaling), so that this one is to be
  // divided by it; what overflowed becomes 0.
  double grad_scale = 1;

  bool defined() const { return value.defined(); }
};

// x [B, T, in] → scale·x_b·W_bᵀ of every row b [B, T, out].
at::Tensor batched_linear(const at::Tensor& x_bti, const BatchedWeight& weight, double scale = 1);

// Returns y [B, T, …] with x_b·W_bᵀ added to its channels [first, first + out). Overwrites y, which
// nothing else may read and no operation may have saved; autograd does not see that.
at::Tensor add_batched_linear(const at::Tensor& y, std::int64_t first, const at::Tensor& x_bti,
                              const BatchedWeight& weight);

}  // namespace tg
