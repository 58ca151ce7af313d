#pragma once
#include "ops/attention/qk_norm_rope_kernel.h"

namespace tg::cuda {

// Heads as the products' epilogue takes them.
constexpr bool can_project_heads(std::int64_t head_dim, std::int64_t half_rope_dims) {
  const bool power_of_two = (half_rope_dims & (half_rope_dims - 1)) == 0;
  return (head_dim == 64 || head_dim == 128) && half_rope_dims >= 8 && power_of_two &&
         2 * half_rope_dims <= head_dim;
}

// qkv = x·weightᵀ [tokens, (heads + 2·KV)·hd] of x [tokens, dim], in which the heads of q and k are
// normalised, rotated and times their gain (nonzero_gain), and the norms' factors, `inverse_rms`
// [tokens, heads + KV]. bf16; all matrices row-major and contiguous, at
// addresses that are multiples of 16 bytes, `dim` a multiple of 8. cos and sin are [seq_len,
// half_rope_dims], q_gain [heads]; null: 1.
void project_heads(const HeadShape& shape, int dim, const void* x, const void* weight,
                   const void* cos, const void* sin, const float* q_gain, void* qkv,
                   float* inverse_rms, Stream stream);

}  // namespace tg::cuda
