#pragma once
// Device code for tensors of heads: a warp processes a token; `lanes` consecutive lanes hold a
// head, one 16-byte pack each, and reduce over it with shuffles.
#include <type_traits>

#include "ops/attention/kernels/attention_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kHeadThreads = 256;
constexpr int kHeadWarps = kHeadThreads / kWarp;

// The part of a head that this lane holds.
template <typename T, int lanes>
struct HeadLane {
  static constexpr int heads_per_warp = kWarp / lanes;
  int index = threadIdx.x % lanes;         // in the head
  int head = threadIdx.x % kWarp / lanes;  // among the heads_per_warp
  int offset = index * Pack<T>::size;      // in the head, in elements
};

// Number of CTAs for kernels whose warps take tokens in turn, at most `per_sm` per SM.
inline int token_blocks(int tokens, int per_sm) {
  return blocks_for((tokens + kHeadWarps - 1) / kHeadWarps, per_sm);
}
__device__ inline int grid_warp_index() {
  return static_cast<int>(blockIdx.x * kHeadWarps + threadIdx.x / kWarp);
}
__device__ inline int num_grid_warps() {
  return static_cast<int>(gridDim.x * kHeadWarps);
}

// Loads a pack of a head; zeros if `in_bounds` is false or the tensor is null.
template <typename T>
__device__ inline Pack<T> load_head(HeadVectors from, int token, int head, int offset,
                                    bool in_bounds = true) {
  if (!in_bounds || from.data == nullptr) return Pack<T>{};
  return load_pack(static_cast<const T*>(from.data) + token * from.token_stride +
                   head * from.head_stride + offset);
}

// b: a pack or floats.
template <typename T, typename X>
__device__ inline float dot(const Pack<T>& a, const X& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Pack<T>::size; ++i) sum += a[i] * b[i];
  return sum;
}

// Returns a query head's gain, bounded away from 0: if only the scaled queries are saved, in T,
// backward divides by the gain. Scores with a gain of 1e-20 are effectively 0. 2^-14 is the
// smallest gain at which fp16 holds normalised queries at full precision; scores are then below the
// rounding of scores of 1.
template <typename T>
__device__ inline float nonzero_gain(float gain) {
  constexpr float least = std::is_same_v<T, __half> ? 0x1p-14f : 1e-20f;
  return fabsf(gain) < least ? copysignf(least, gain) : gain;
}

// Calls op(T{}, lanes) with the smallest of 8, 16 and 32 lanes that hold a head.
template <typename Op>
void dispatch_heads(Dtype dtype, int head_dim, Op op) {
  dispatch(dtype, [&](auto zero) {
    const int packs = head_dim / Pack<decltype(zero)>::size;
    if (packs <= 8) return op(zero, std::integral_constant<int, 8>{});
    if (packs <= 16) return op(zero, std::integral_constant<int, 16>{});
    op(zero, std::integral_constant<int, kMaxPacksPerHead>{});
  });
}

}  // namespace tg::cuda
