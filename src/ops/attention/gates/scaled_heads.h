#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "ops/gemm/normed_input.h"

namespace tg {

// Multiplies each head by its token's weight: x [B, T, at least heads·hd], weights [B, T, heads] →
// [B, T, heads·hd], where head h is weights_h·x_h. Differentiable in x and the weights.
at::Tensor scaled_heads(const at::Tensor& x_btd, const at::Tensor& weights_bth,
                        std::int64_t head_dim);

// Rows of a value embedding with a gate on each head.
struct GatedValues {
  // n, for the QKV projection: backward adds the gate's gradient to the first channels of its
  // gradient, in place if nothing else refers to it. Avoids a gradient of all channels that is zero
  // except for a few, and its addition.
  NormedInput n;
  at::Tensor values;  // [B, T, heads·hd]
};

// Computes values_h = 2·σ(W_h·[n[:w], v[:w]])·v_h from the normed input n [B, T, D], rows v [B, T,
// at least heads·hd] and W [heads, 2·w]. Differentiable in n, v and W. n is not quantized. The
// kernels support w = 6 and compute the gate in fp32; ATen in v's dtype.
GatedValues gated_values(const NormedInput& n_btd, const at::Tensor& v_btd,
                         const at::Tensor& weight, std::int64_t head_dim);

}  // namespace tg
