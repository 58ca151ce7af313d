#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/attention/rope.h"
#include "ops/gemm/fp8.h"

namespace tg {

// Inputs besides the QKV projection.
struct QkvInputs {
  std::int64_t heads, kv_heads;
  at::Tensor q_gain = {};           // [heads] fp32; undefined: 1
  at::Tensor value_embedding = {};  // [B, T, KV·hd]; undefined: 0
  // Value residual (Zhou et al. 2024), fp32; undefined: none. [] is λ, which blends the layer's own
  // value with the first layer's; [2] are λ0 and λ1, their weights.
  at::Tensor value_lambda = {};
  at::Tensor first_v = {};  // [B, T, KV, hd], first_v of the previous layer; undefined in the first
  // Of a head, where the others are padding, zero everywhere: what rms_norm's mean is over. 0: all.
  std::int64_t channels = 0;
};

struct Qkv {
  // [B, T, heads, hd] and [B, T, KV, hd]. May be views of tensors saved for backward: read only.
  at::Tensor q, k, v;
  // v again, for exclusive attention: the backward kernel reads the gradients of both uses and adds
  // them, so that autograd need not.
  at::Tensor exclusive_v;
  at::Tensor first_v;  // for the next layer; undefined without a value residual
};

// Queries, keys and values of attention from the QKV projection, qkv [B, T, (heads + 2·KV)·hd].
// Over each head, q = rope(rms_norm(q))·q_gain and k = rope(rms_norm(k)). With own = v +
// value_embedding and f the first layer's own:
//   v = own                     without a value residual
//   v = (1 − λ)·own + λ·f       value_lambda []; f = own in the first layer, where dλ = 0
//   v = λ0·f + λ1·own           value_lambda [2]; own in the first layer, without a gradient of λ
// Each layer returns first_v for the next, so that its gradient accumulates over the later layers.
// One of heads and KV may be 0: then there are no queries, or no keys and values.
// The kernels require that a head and half of its rotated part are multiples of 16 bytes, a head at
// most 512 bytes.
Qkv qk_norm_rope(const at::Tensor& qkv, const QkvInputs& in, const RopeTable& table);

// For qkv_proj_norm_rope(). The first: whether the kernels support these inputs, x [B, T, …]. The
// second: qk_norm_rope by the kernels. If `inverse_rms` [B, T, heads + KV] fp32 is defined, q and k
// in `qkv` are normalised, rotated and scaled (by a gain kept away from 0) already, and these are
// their 1/rms; undefined, qkv is the plain projection. The gradient of `qkv` is that of the plain
// projection in both cases. With `gradient_scaling`, and inverse_rms in bf16, it is rounded
// as well (empty_rounded()).
bool qk_norm_rope_kernels_support(const at::Tensor& x, std::int64_t head_dim, const QkvInputs& in,
                                  const RopeTable& table);
Qkv fused_qk_norm_rope(const at::Tensor& qkv, const at::Tensor& inverse_rms, const QkvInputs& in,
                       const RopeTable& table, const Fp8Scaling& gradient_scaling = {});

}  // namespace tg
