#pragma once
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// Head sizes and rotated parts for which qkv_proj_norm_rope has a kernel. Interleaved pairs,
// with one table or two: the shapes of the speedrun's records 89 and 91.
constexpr bool qkv_proj_norm_rope_supports(std::int64_t head_dim, std::int64_t half_rope_dims,
                                           bool interleaved) {
  if (interleaved) return head_dim == 128 && (half_rope_dims == 24 || half_rope_dims == 32);
  const bool power_of_two = (half_rope_dims & (half_rope_dims - 1)) == 0;
  return (head_dim == 64 || head_dim == 128) && half_rope_dims >= 8 && power_of_two &&
         2 * half_rope_dims <= head_dim;
}

inline constexpr int kApartTokens = 256;
// Computes x·weightᵀ from x [tokens, dim] and weight [(heads + 2·KV)·hd, dim] and writes to `qkv`:
// q and k normalised and rotated, q also scaled by its gain (nonzero_gain), and v plus the
// embedding and first_v. Keys have no offset yet. With shape.apart the tokens are a multiple of
// kApartTokens, and heads·hd is one of 64. Writes row_scale/rms of the heads of q and k to
// inverse_rms [tokens, heads + KV], for backward. in.row_scale scales the rows of bf16 and fp16
// operands; FP8 rows are already scaled. in.qkv and in.inverse_rms are not read. bf16 or fp16; all
// matrices row-major, contiguous and 16-byte aligned; `dim` is a multiple of 8. `fp8`: scales of x
// and weight; no copy.
void qkv_proj_norm_rope(const QkvShape& shape, int dim, const void* x, const void* weight,
                        const Fp8Gemm& fp8, const QkNormRopeInputs& in, void* qkv,
                        float* inverse_rms, Dtype dtype, Stream stream);

}  // namespace tg::cuda
