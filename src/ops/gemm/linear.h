#pragma once
#include <ATen/ATen.h>

#include "ops/gemm/fp8.h"
#include "ops/gemm/normed_input.h"

namespace tg {

// A weight matrix [out, in] and where its gradient accumulates.
struct Weight {
  at::Tensor value;     // in the compute dtype, or a parameter, which linear() casts to it
  at::Tensor gradient;  // in the parameter's dtype; undefined: autograd computes it for `value`,
                        // or where that requires none the weight is a constant
  Fp8Weight fp8{};      // `value` in FP8, used instead where it is defined

  bool is_followed() const { return !gradient.defined() && value.requires_grad(); }
  // As a constant, without FP8.
  Weight frozen() const { return {value.defined() ? value.detach() : value, {}}; }
};

// x [..., in] → x·Wᵀ [..., out]. dx = dy·W; dW = dyᵀ·x is accumulated into `gradient` by the GEMM
// itself, in the gradient's dtype: sums over micro-batches are not rounded to half precision, and
// no intermediate is written. With `gradient`, x must require a gradient. Without, dW has the dtype
// of `value`: an fp32 parameter's gradient is never rounded to half precision, where the sum over a
// step's tokens would overflow in fp16. With `fp8`, the GEMMs of x·Wᵀ and dx have FP8 operands;
// dW's has not.
at::Tensor linear(const NormedInput& x, const Weight& weight);

// For autograd Functions with a weight. x as a matrix [rows, in]:
at::Tensor as_rows(const at::Tensor& x);
// weight.gradient += dyᵀ·x, unless the weight is a constant:
void accumulate_gradient(const Weight& weight, const at::Tensor& dy_rows, const at::Tensor& x_rows);
// accumulator += a·b, rounded to the accumulator's dtype only:
void accumulate_gemm(const at::Tensor& accumulator, const at::Tensor& a, const at::Tensor& b);
// → x·Wᵀ; autograd follows `value`, not `fp8`:
at::Tensor linear_forward(const NormedInput& x, const Weight& weight);
// → dx = dy·W, and accumulates dW into weight.gradient. With x in FP8, gemm_operands()' on Hopper,
// dW is of FP8 operands as well.
at::Tensor linear_backward(const at::Tensor& x, const Weight& weight, const at::Tensor& dy);
// What a kernel that scales rows itself multiplies for x·Wᵀ: x and W, or both in FP8 with their
// scales.
struct GemmOperands {
  at::Tensor x, weight;
  cuda::Fp8Gemm fp8{};
};
GemmOperands gemm_operands(const NormedInput& x, const Weight& weight);

}  // namespace tg
