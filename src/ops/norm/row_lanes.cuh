#pragma once
// Rows of a tensor [rows, width] in registers, distributed over the threads of a warp or a CTA in
// packs of 8 elements of any dtype. Width is a multiple of 8; addresses are 16-byte aligned.
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kLaneColumns = 8;
constexpr int kWarpColumns = kWarp * kLaneColumns;  // a chunk: one access by a warp
constexpr int kMaxRowWarps = 8;                     // warps of a CTA that share a row

// A thread's columns of one chunk.
template <typename T>
using Pack8 = Pack<T, kLaneColumns>;

// Mapping of rows to threads. One chunk per thread: a CTA per row, with as many warps as the width
// needs. More chunks: a warp per row.
template <typename Element, int kChunks>
struct RowLayout {
  using T = Element;
  static constexpr int chunks = kChunks;
  static constexpr bool block_per_row = kChunks == 1;

  static int threads(int width, int warps) {
    return kWarp * (block_per_row ? (width + kWarpColumns - 1) / kWarpColumns : warps);
  }
  static __host__ __device__ int rows_per_block(int threads) {
    return block_per_row ? 1 : threads / kWarp;
  }
  static __device__ int column() {
    return static_cast<int>(block_per_row ? threadIdx.x : threadIdx.x % kWarp) * kLaneColumns;
  }
  static __device__ std::int64_t first_row() {
    const int first = block_per_row ? 0 : static_cast<int>(threadIdx.x / kWarp);
    return std::int64_t{blockIdx.x} * rows_per_block(blockDim.x) + first;
  }
  static __device__ std::int64_t row_stride() {
    return std::int64_t{gridDim.x} * rows_per_block(blockDim.x);
  }

  // A thread's part of a row. Zeros beyond the width, and all zeros for a null tensor.
  struct Row {
    Pack8<T> chunks[kChunks];
  };
  static __device__ Row load_row(const void* tensor, std::int64_t offset, int width) {
    Row row;
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      row.chunks[k] = tensor != nullptr && column() + k * kWarpColumns < width
                          ? load_pack<T, kLaneColumns>(static_cast<const T*>(tensor) + offset +
                                                       k * kWarpColumns)
                          : Pack8<T>{};
    }
    return row;
  }
  // Fetches a thread's part of a row into L2, for loads that must come late.
  static __device__ void prefetch_row(const void* tensor, std::int64_t offset, int width) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k) {
      const void* const at = static_cast<const T*>(tensor) + offset + k * kWarpColumns;
      if (column() + k * kWarpColumns < width) asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    }
  }
  // Compiler barrier: makes the compiler convert elements to fp32 again after it, so that only the
  // packed row stays in registers.
  static __device__ void keep_packed(Row& row) {
#pragma unroll
    for (int k = 0; k < kChunks; ++k)
#pragma unroll
      for (int w = 0; w < Pack8<T>::word_count; ++w)
        asm volatile("" : "+r"(row.chunks[k].words[w]));
  }
  static __device__ void store_chunk(void* tensor, std::int64_t offset, int k,
                                     const float (&values)[kLaneColumns]) {
    if (tensor != nullptr)
      store_rounded(static_cast<T*>(tensor) + offset + k * kWarpColumns, values);
  }

  // Sums over the threads of a row; every thread gets the sum.
  static __device__ float row_sum(float value) {
    value = warp_sum(value);
    if constexpr (block_per_row) {
      __shared__ float warps[kMaxRowWarps];
      __syncthreads();  // until the previous sum has been read
      if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = 0;
      for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) value += warps[warp];
    }
    return value;
  }
};

}  // namespace tg::cuda
