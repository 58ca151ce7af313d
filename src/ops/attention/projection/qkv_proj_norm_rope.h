#pragma once
#include "ops/attention/projection/qk_norm_rope.h"
#include "ops/fused.h"
#include "ops/gemm/linear.h"

namespace tg {

// Computes qk_norm_rope(linear(x, weight)), x [B, T, D]; the weight's gradient is as in linear().
// On a GPU in bf16 and fp16, with heads of at most 128, q and k are saved normalised and rotated
// instead of their plain projection, which on Hopper with heads of 64 or 128 never leaves the
// registers of the GEMM's epilogue. With weight.fp8, which does not support x scaled by row, the
// kernels' three GEMMs have FP8 operands.
Qkv qkv_proj_norm_rope(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table, Kernel kernel);
// Chooses the kernel for this projection and rows like x's [B, T, D], considering the current grad
// mode. cuda: a kernel after the GEMM.
Kernel choose_qkv_proj_norm_rope(const at::Tensor& x, const Weight& weight, const QkvInputs& in,
                                 const RopeTable& table);
// Whether this kernel takes x as NormedForm::deferred_scale.
bool qkv_proj_defers_scale(Kernel kernel, const at::Tensor& x, const Weight& weight,
                           const QkvInputs& in);
// qkv_proj_norm_rope() with the kernel of choose_qkv_proj_norm_rope().
Qkv qkv_proj_norm_rope(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table);
// qkv_proj_norm_rope() without a gradient, with queries only for positions [first, first + count):
// q [B, count, heads, hd]; k and v have all T positions.
Qkv qkv_proj_norm_rope_of_queries(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                                  const RopeTable& table, std::int64_t first, std::int64_t count);

}  // namespace tg
