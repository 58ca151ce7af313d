#pragma once
#include <ATen/ATen.h>

#include "ops/gemm/fp8.h"
#include "ops/gemm/normed_input.h"
#include "ops/shared_gradient.h"

namespace tg {

// A weight matrix [out, in] and the buffer that accumulates its gradient.
struct Weight {
  at::Tensor value;     // in the compute dtype, or a parameter that linear() casts to it
  at::Tensor gradient;  // in the parameter's dtype; undefined: autograd differentiates `value`, or
                        // the weight is a constant if `value` does not require a gradient
  Fp8Weight fp8{};      // `value` in FP8, used instead if defined

  bool uses_autograd() const { return !gradient.defined() && value.requires_grad(); }
  // The weight as a constant, without FP8.
  Weight as_constants() const { return {value.defined() ? value.detach() : value, {}}; }
};

// Computes x·Wᵀ: x [..., in] → [..., out]. In backward, dx = dy·W, and the GEMM dW = dyᵀ·x
// accumulates into `gradient` in the gradient's dtype: sums over micro-batches are not rounded to
// half precision, and no intermediate is materialized. With `gradient`, x must require a gradient.
// Without it, dW has the dtype of `value`: the gradient of an fp32 parameter is never rounded to
// half precision, in which the sum over a step's tokens would overflow (fp16). With `fp8`, the
// GEMMs of x·Wᵀ and dx have FP8 operands; dW's only if x is in the form quantized.
at::Tensor linear(const NormedInput& x, const Weight& weight);
// Computes x·Wᵀ for a tensor that other operations read, too. The GEMM of a parameter in another
// dtype than x's adds dx to the gradient sum of x.
at::Tensor linear(const SharedTensor& x, const Weight& weight);

// Building blocks of autograd Functions with a weight. Views x as a matrix [rows, in]:
at::Tensor as_rows(const at::Tensor& x);
// Computes weight.gradient += dyᵀ·x if there is a weight.gradient:
void accumulate_gradient(const Weight& weight, const at::Tensor& dy_rows, const at::Tensor& x_rows);
// Computes accumulator += a·b, rounded only to the accumulator's dtype:
void accumulate_gemm(const at::Tensor& accumulator, const at::Tensor& a, const at::Tensor& b);
// Computes x·Wᵀ; differentiable in `value`, not in `fp8`:
at::Tensor linear_forward(const NormedInput& x, const Weight& weight);
// Returns dx = dy·W and accumulates dW into weight.gradient. If x is in FP8, dW's GEMM has FP8
// operands, too.
at::Tensor linear_backward(const at::Tensor& x, const Weight& weight, const at::Tensor& dy);
// GEMM operands of x·Wᵀ for a kernel that applies row scales itself: x and W, or both in FP8 with
// their scales.
struct GemmOperands {
  at::Tensor x, weight;
  cuda::Fp8Gemm fp8{};
};
GemmOperands gemm_operands(const NormedInput& x, const Weight& weight);

}  // namespace tg
