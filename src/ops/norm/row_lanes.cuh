#pragma once
// Rows of a tensor [rows, width] in the registers of the lanes that share them, in packs of eight
// numbers whatever the type: a width that is a multiple of 8, addresses that are multiples of 16.
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kLaneWidth = 8;
constexpr int kSpan = kWarp * kLaneWidth;  // columns of a warp's access
constexpr int kBlockRowWarps = 8;          // at most, where a row is a block's

// A lane's columns of one span.
template <typename T>
using Eight = Pack<T, kLaneWidth>;

// How rows lie on threads: with one span a lane, a row is a block's of as many warps as it takes;
// with more, a warp's.
template <typename Number, int kSpans>
struct Tile {
  using T = Number;
  static constexpr int spans = kSpans;
  static constexpr bool block_row = kSpans == 1;

  static int threads(int width, int warps) {
    return kWarp * (block_row ? (width + kSpan - 1) / kSpan : warps);
  }
  static __host__ __device__ int rows_per_block(int threads) {
    return block_row ? 1 : threads / kWarp;
  }
  static __device__ int column() {
    return static_cast<int>(block_row ? threadIdx.x : threadIdx.x % kWarp) * kLaneWidth;
  }
  static __device__ std::int64_t first_row() {
    const int first = block_row ? 0 : static_cast<int>(threadIdx.x / kWarp);
    return std::int64_t{blockIdx.x} * rows_per_block(blockDim.x) + first;
  }
  static __device__ std::int64_t row_step() {
    return std::int64_t{gridDim.x} * rows_per_block(blockDim.x);
  }

  // A lane's share of a row; zeros beyond the width and without a tensor.
  struct Row {
    Eight<T> spans[kSpans];
  };
  static __device__ Row load_row(const void* tensor, std::int64_t at, int width) {
    Row row;
#pragma unroll
    for (int k = 0; k < kSpans; ++k) {
      row.spans[k] = tensor != nullptr && column() + k * kSpan < width
                         ? load_pack<T, kLaneWidth>(static_cast<const T*>(tensor) + at + k * kSpan)
                         : Eight<T>{};
    }
    return row;
  }
  // What was converted to fp32 above is converted again below, not kept.
  static __device__ void keep_packed(Row& row) {
#pragma unroll
    for (int k = 0; k < kSpans; ++k)
#pragma unroll
      for (int w = 0; w < Eight<T>::word_count; ++w) asm volatile("" : "+r"(row.spans[k].words[w]));
  }
  static __device__ void store_span(void* tensor, std::int64_t at, int k,
                                    const float (&values)[kLaneWidth]) {
    if (tensor != nullptr) store_rounded(static_cast<T*>(tensor) + at + k * kSpan, values);
  }

  static __device__ float row_sum(float value) {
    value = warp_sum(value);
    if constexpr (block_row) {
      __shared__ float warps[kBlockRowWarps];
      __syncthreads();  // the sum before has been read
      if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = 0;
      for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) value += warps[warp];
    }
    return value;
  }
};

}  // namespace tg::cuda
