#pragma once
// Device code that forward and backward of qk_norm_rope() share.
#include "ops/attention/kernels/rotary.cuh"

namespace tg::cuda {

__device__ inline float first_weight_of(const QkNormRopeInputs& in) {
  return in.first_weight == nullptr ? 0 : *in.first_weight;
}

__device__ inline float row_scale_of(const QkNormRopeInputs& in, int token) {
  return in.row_scale == nullptr ? 1 : in.row_scale[token];
}

// qkv [tokens, heads + 2·KV, hd], contiguous.
__device__ inline HeadVectors qkv_heads(const QkvShape& shape, const void* qkv) {
  const std::int64_t row = std::int64_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim;
  return {qkv, row, shape.head_dim};
}

template <typename T>
__device__ T* contiguous_head(void* tensor, int token, int heads, int head, int head_dim) {
  return static_cast<T*>(tensor) + (std::int64_t{token} * heads + head) * head_dim;
}

// Whether QkvShape::key_offset moves this lane's pack of a key to the next token.
template <typename T, int lanes>
__device__ bool moves_key(const QkvShape& shape) {
  return shape.key_offset && HeadLane<T, lanes>().offset >= shape.channels / 2;
}

// Whether heads of this type may be saved rotated (qk_norm_rope_in_place).
template <typename T, int lanes>
constexpr bool is_rotated = !std::is_same_v<T, float> && lanes * Pack<T>::size <= kMaxRotatedHead;

// Calls op(std::bool_constant) with shape.interleaved.
template <typename Op>
void dispatch_pairs(const QkvShape& shape, Op op) {
  if (shape.interleaved)
    op(std::true_type{});
  else
    op(std::false_type{});
}

}  // namespace tg::cuda
