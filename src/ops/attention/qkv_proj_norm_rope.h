#pragma once
#include "ops/attention/qk_norm_rope.h"
#include "ops/fused.h"
#include "ops/gemm/linear.h"

namespace tg {

// qk_norm_rope(linear(x, weight)), x [B, T, D]; weight's gradient as linear()'s. On Hopper, in bf16
// and fp16 and with heads of 64 or 128, q and k are normalised and rotated in the GEMM's epilogue:
// the plain projection of q and k never leaves the registers. With weight.fp8, which excludes a
// deferred row scale, all three GEMMs have FP8 operands.
Qkv qkv_proj_norm_rope(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table, Kernel kernel);
// Returns the kernel of this projection for rows like x's [B, T, D], with gradients or without as
// autograd is now. cuda: the GEMM is LibTorch's.
Kernel choose_qkv_proj_norm_rope(const at::Tensor& x, const Weight& weight, const QkvInputs& in,
                                 const RopeTable& table);
// By the kernel of choose_qkv_proj_norm_rope().
Qkv qkv_proj_norm_rope(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table);
// qkv_proj_norm_rope() without a gradient, with the queries of positions [first, first + count)
// alone: q [B, count, heads, hd]; k and v have all T.
Qkv qkv_proj_norm_rope_of_queries(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                                  const RopeTable& table, std::int64_t first, std::int64_t count);

}  // namespace tg
