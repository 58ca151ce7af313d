#pragma once
#include <ATen/ATen.h>

namespace tg {

// A matrix [out, in] as products take it, and where its gradient goes.
struct Weight {
  at::Tensor value;     // in the compute dtype
  at::Tensor gradient;  // in the parameter's dtype; undefined: the gradient is autograd's to carry
};

// x [..., in] → x·Wᵀ [..., out]. dx = dy·W; dW = dyᵀ·x is added to `gradient` by the product
// itself, in the gradient's dtype: sums over micro-batches are not rounded to half precision, and
// no intermediate is written. x must then require a gradient itself.
at::Tensor linear(const at::Tensor& x, const Weight& weight);

// For Functions like linear()'s own: x as a matrix [rows, in]; sum += a·b, rounded to the sum's
// dtype alone; dx, after dW was added to `gradient`.
at::Tensor as_rows(const at::Tensor& x);
void add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);
at::Tensor linear_backward(const at::Tensor& x, const at::Tensor& value, const at::Tensor& gradient,
                           const at::Tensor& dy);

}  // namespace tg
