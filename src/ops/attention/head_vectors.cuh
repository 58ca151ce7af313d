#pragma once
// Device code for tensors of heads: a warp takes a token; `lanes` neighbouring lanes hold a head, a
// pack of 16 bytes each, and reduce over it with shuffles.
#include <type_traits>

#include "ops/attention/head_vectors_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kHeadThreads = 256;
constexpr int kHeadWarps = kHeadThreads / kWarp;

// Which part of which head this lane holds.
template <typename T, int lanes>
struct HeadLane {
  static constexpr int heads_per_warp = kWarp / lanes;
  int index = threadIdx.x % lanes;         // in the head
  int head = threadIdx.x % kWarp / lanes;  // of the heads_per_warp
  int offset = index * Pack<T>::size;      // in the head, in elements
};

__device__ inline int grid_warp_index() {
  return static_cast<int>(blockIdx.x * kHeadWarps + threadIdx.x / kWarp);
}
__device__ inline int num_grid_warps() {
  return static_cast<int>(gridDim.x * kHeadWarps);
}

// Zeros where `in_bounds` is false or the tensor is null.
template <typename T>
__device__ inline Pack<T> load_head(HeadVectors from, int token, int head, int offset,
                                    bool in_bounds = true) {
  if (!in_bounds || from.data == nullptr) return Pack<T>{};
  return load_pack(static_cast<const T*>(from.data) + token * from.token_stride +
                   head * from.head_stride + offset);
}

template <typename T>
__device__ inline float dot(const Pack<T>& a, const Pack<T>& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Pack<T>::size; ++i) sum += a[i] * b[i];
  return sum;
}

// A query head's gain, kept away from 0: if only the scaled queries are saved, in T, backward
// divides by it. Scores with a gain of 1e-20 are 0 all the same; with 2^-14, the smallest at which
// fp16 holds normalised queries to its own precision, they are below the precision of scores of 1.
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
