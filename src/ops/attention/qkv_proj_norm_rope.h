#pragma once
#include "ops/attention/qk_norm_rope.h"
#include "ops/gemm/linear.h"

namespace tg {

// attention_heads() of x·weightᵀ, x [B, T, D]; gradients of these as linear()'s. On Hopper, in bf16
// and with 64 or 128 numbers a head, q and k are normalised and rotated in the product's epilogue:
// as they were projected they never leave the registers.
Heads projected_heads(const at::Tensor& x, const Weight& weight, const HeadInputs& in,
                      const RopeTable& table);

}  // namespace tg
