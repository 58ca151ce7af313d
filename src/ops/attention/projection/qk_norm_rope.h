#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/attention/projection/rope.h"
#include "ops/gemm/fp8.h"
#include "ops/passed_gradients.h"

namespace tg {

// Inputs besides the QKV projection.
struct QkvInputs {
  std::int64_t heads, kv_heads;
  at::Tensor q_gain = {};           // [heads] fp32; undefined: 1
  at::Tensor value_embedding = {};  // [B, T, KV·hd]; undefined: 0
  // Value residual (Zhou et al. 2024): each layer passes the first layer's values to the next.
  bool value_residual = false;
  at::Tensor first_v = {};  // [B, T, KV, hd], of the previous layer; undefined in the first
  at::Tensor first_weight =
      {};  // [] fp32, of first_v; the weight of the layer's own v is part of the projection
  // Number of channels of a head without padding, for rms_norm's mean; the others are zero. 0: all.
  std::int64_t channels = 0;
  // After rotation the second half of a key's channels is that of the token before, of whichever
  // document: k_t[hd/2:] = k_{t−1}[hd/2:] for t ≥ 1. Not with rotated halves that are padded.
  bool key_offset = false;
  // The kernels' q, k and v are contiguous, for paired_heads().
  bool contiguous = false;
  PassedGradientsPtr passed{};  // takes q's gradient and a head gate's where kernels can
};

struct Qkv {
  // [B, T, heads, hd] and [B, T, KV, hd]. May be views of tensors saved for backward: read only.
  at::Tensor q, k, v;
  // Alias of v for exclusive attention: the backward kernel adds the gradients of both uses, so
  // that autograd need not.
  at::Tensor exclusive_v;
  at::Tensor first_v;  // for the next layer; undefined without a value residual
};

// Computes attention's queries, keys and values from the QKV projection, qkv [B, T, (heads +
// 2·KV)·hd]. For each head, q = rope(rms_norm(q))·q_gain and k = rope(rms_norm(k)), and
//   v = v + value_embedding + first_weight·first_v
// With a value residual each layer returns first_v (the first layer: its own v) for the next layer,
// so that its gradient accumulates over the later layers. Either heads or KV may be 0: no queries,
// or no keys and values. The kernels require that the sizes of a head and of half its rotated part
// are multiples of 16 bytes, and a head of at most 512 bytes. With interleaved pairs the whole
// rotated part suffices, and they also have two tables for even numbers of heads and KV, and the
// key offset if half of `channels` is such a multiple, too.
Qkv qk_norm_rope(const at::Tensor& qkv, const QkvInputs& in, const RopeTable& table);

// For qkv_proj_norm_rope(). qk_norm_rope_kernels_support(): whether the kernels support these
// inputs, with x [B, T, …]. fused_qk_norm_rope(): qk_norm_rope() by the kernels. If `inverse_rms`
// [B, T, heads + KV] fp32 is defined, `qkv` already holds the result (with nonzero_gain(), without
// the key offset), and inverse_rms is row_scale/rms of q and k; undefined: qkv is the plain
// projection. In both cases the gradient of `qkv` is the plain projection's; with row_scale [B, T]
// fp32 (NormedInput), the unscaled projection's. With `gradient_scaling`, and inverse_rms in bf16,
// it is written in FP8 (empty_fp8_like()), and in bf16 only the part of the values, if that is the
// value embedding's gradient.
bool qk_norm_rope_kernels_support(const at::Tensor& x, std::int64_t head_dim, const QkvInputs& in,
                                  const RopeTable& table);
Qkv fused_qk_norm_rope(const at::Tensor& qkv, const at::Tensor& inverse_rms, const QkvInputs& in,
                       const RopeTable& table, const Fp8Scaling& gradient_scaling = {},
                       const at::Tensor& row_scale = {});

}  // namespace tg
