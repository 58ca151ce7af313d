#pragma once
// Kernels on heads: a warp takes a token, `lanes` threads hold one head, 16 bytes each, and sum
// over it without leaving the warp.
#include <type_traits>

#include "ops/attention/head_vectors_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kHeadThreads = 256;
constexpr int kHeadWarps = kHeadThreads / kWarp;

// Where a thread stands.
template <typename T, int lanes>
struct Seat {
  static constexpr int heads_at_once = kWarp / lanes;
  int lane = threadIdx.x % lanes;
  int head = threadIdx.x % kWarp / lanes;  // of those that its warp holds at once
  int offset = lane * Pack<T>::size;       // in the head
};

// This warp's number in the grid, and how many there are.
__device__ inline int grid_warp() {
  return static_cast<int>(blockIdx.x * kHeadWarps + threadIdx.x / kWarp);
}
__device__ inline int grid_warps() {
  return static_cast<int>(gridDim.x * kHeadWarps);
}

template <typename T>
__device__ inline Pack<T> load_head(HeadVectors from, int token, int head, int offset,
                                    bool there = true) {
  if (!there || from.data == nullptr) return Pack<T>{};
  return load_pack(static_cast<const T*>(from.data) + token * from.row_stride +
                   head * from.head_stride + offset);
}

template <typename T>
__device__ inline float dot(const Pack<T>& a, const Pack<T>& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Pack<T>::size; ++i) sum += a[i] * b[i];
  return sum;
}

// Of a query head. Where queries are kept only with their gain, the way back divides by it: one
// next to 0 is taken for a gain that leaves the scores 0 all the same.
__device__ inline float nonzero_gain(float gain) {
  constexpr float least = 1e-20f;
  return fabsf(gain) < least ? copysignf(least, gain) : gain;
}

// op(T{}, lanes) with the fewest lanes, of a few choices, that hold a head.
template <typename Op>
void dispatch_heads(Float number, int head_dim, Op op) {
  dispatch(number, [&](auto zero) {
    const int packs = head_dim / Pack<decltype(zero)>::size;
    if (packs <= 8) return op(zero, std::integral_constant<int, 8>{});
    if (packs <= 16) return op(zero, std::integral_constant<int, 16>{});
    op(zero, std::integral_constant<int, kMostPacksPerHead>{});
  });
}

}  // namespace tg::cuda
