#pragma once
#include "ops/attention/qk_norm_rope_kernel.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// Head sizes and rotated parts for which qkv_proj_norm_rope has a kernel.
constexpr bool qkv_proj_norm_rope_supports(std::int64_t head_dim, std::int64_t half_rope_dims) {
  const bool power_of_two = (half_rope_dims & (half_rope_dims - 1)) == 0;
  return (head_dim == 64 || head_dim == 128) && half_rope_dims >= 8 && power_of_two &&
         2 * half_rope_dims <= head_dim;
}

// qkv = x·weightᵀ [tokens, (heads + 2·KV)·hd] from x [tokens, dim], with the heads of q and k
// normalised, rotated and q's scaled by their gain (nonzero_gain); inverse_rms [tokens, heads + KV]
// are 1/rms of these heads, for the backward pass. bf16 or fp16; all matrices row-major and
// contiguous, at addresses that are multiples of 16 bytes, `dim` a multiple of 8. cos and sin are
// [seq_len, half_rope_dims], q_gain [heads], or null for 1.
// `fp8`: of x and weight, without a copy.
void qkv_proj_norm_rope(const QkvShape& shape, int dim, const void* x, const void* weight,
                        const Fp8Gemm& fp8, const void* cos, const void* sin, const float* q_gain,
                        void* qkv, float* inverse_rms, Dtype dtype, Stream stream);

}  // namespace tg::cuda
