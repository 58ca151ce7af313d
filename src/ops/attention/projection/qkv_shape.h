#pragma once
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/attention/projection/qk_norm_rope.h"

namespace tg {

// Makes the kernels' shape for a QKV projection [B, T, (heads + 2·KV)·hd], or [B, T, 3, heads·hd]
// if q, k and v are apart.
inline cuda::QkvShape qkv_shape(const at::Tensor& qkv, const QkvInputs& in,
                                const RopeTable& table) {
  const auto head_dim =
      qkv.size(2) * (qkv.dim() == 4 ? qkv.size(3) : 1) / (in.heads + 2 * in.kv_heads);
  return {.tokens = static_cast<int>(qkv.size(0) * qkv.size(1)),
          .seq_len = static_cast<int>(qkv.size(1)),
          .heads = static_cast<int>(in.heads),
          .kv_heads = static_cast<int>(in.kv_heads),
          .head_dim = static_cast<int>(head_dim),
          .half_rope_dims = static_cast<int>(table.half_dims()),
          .channels = static_cast<int>(in.channels == 0 ? head_dim : in.channels),
          .tables = static_cast<int>(table.tables()),
          .interleaved = table.interleaved,
          .key_offset = in.key_offset,
          .apart = qkv.dim() == 4};
}

}  // namespace tg
