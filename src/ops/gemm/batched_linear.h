#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// One matrix per row of a batch, and its gradient. Every backward pass overwrites the gradient, so
// that it needs no zeroing, in the gradient's own dtype, without rounding to half precision.
struct BatchedWeight {
  at::Tensor value;      // [B, out, in], in the compute dtype
  at::Tensor gradient;   // [B, out, in]
  at::Tensor leaf;       // makes autograd call backward; its own gradient is not set
  at::Tensor row_scale;  // [out] or [1]: already applied to `value`; backward applies it to the
                         // gradient; undefined: 1
  // Loss scale, by which the gradient is divided; non-finite elements become 0.
  double grad_scale = 1;

  bool defined() const { return value.defined(); }
};

// Computes scale·x_b·W_bᵀ for each row b of the batch: x [B, T, in] → [B, T, out].
at::Tensor batched_linear(const at::Tensor& x_bti, const BatchedWeight& weight, double scale = 1);

// Adds x_b·W_bᵀ in place to channels [first, first + out) of y [B, T, …]. Autograd does not see the
// in-place write. Precondition: nothing else reads y and no operation has saved it.
at::Tensor add_batched_linear(const at::Tensor& y, std::int64_t first, const at::Tensor& x_bti,
                              const BatchedWeight& weight);

}  // namespace tg
