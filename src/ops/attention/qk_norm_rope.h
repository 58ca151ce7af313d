#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/attention/rope.h"

namespace tg {

struct HeadInputs {
  std::int64_t heads, kv_heads;
  at::Tensor q_gain = {};           // [heads] fp32, or undefined: 1
  at::Tensor value_embedding = {};  // [B, T, KV·hd], or undefined: 0
  // Value residual (Zhou et al. 2024), fp32, or undefined: none. One number λ blends the layer's
  // own value with the first layer's, two weigh them.
  at::Tensor value_lambda = {};
  at::Tensor first_v = {};  // [B, T, KV, hd], what the layer before gave; undefined in the first
};

struct Heads {
  // [B, T, heads, hd] and [B, T, KV, hd]; where they can be, views of what backward reads: not to
  // be written.
  at::Tensor q, k, v;
  // v once more, for exclusive attention: the gradients of the two uses are then added where they
  // are read, not by autograd before.
  at::Tensor exclusive_v;
  at::Tensor first_v;  // for the next layer; undefined without a value residual
};

// Of qkv [B, T, (heads + 2·KV)·hd], x by the packed matrices of Q, K and V.
// Over each head, q = rope(rms_norm(q))·q_gain and k = rope(rms_norm(k)). With own = v +
// value_embedding and f the first layer's own:
//   v = own                     without a value residual
//   v = (1 − λ)·own + λ·f       one number; f = own in the first layer, where dλ = 0
//   v = λ0·f + λ1·own           two numbers; own in the first layer, where λ has no gradient
// Each layer hands first_v on: its gradient gathers what the later layers add to it. The kernels
// want whole packs of 16 bytes in a head (32 at most) and in half of the rotated part.
Heads attention_heads(const at::Tensor& qkv, const HeadInputs& in, const RopeTable& table);

// For projected_heads(): whether the kernels can make heads of x [B, T, …]; and what they make of
// `qkv`. With the factors of the norms of q and k, `inverse_rms` [B, T, heads + KV] fp32, these
// stand in it already as they shall be, q by a gain kept from 0; without, qkv is as projected. Its
// gradient is in both cases that of the plain product.
bool kernels_take_heads(const at::Tensor& x, std::int64_t head_dim, const HeadInputs& in,
                        const RopeTable& table);
Heads fused_heads(const at::Tensor& qkv, const at::Tensor& inverse_rms, const HeadInputs& in,
                  const RopeTable& table);

}  // namespace tg
