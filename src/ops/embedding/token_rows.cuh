#pragma once
// Device code shared by the kernels of ops/embedding/token_embedding.h: a warp holds one position
// in registers and iterates over consecutive ones.
#include <type_traits>

#include "ops/embedding/embedding_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kWarps = 4;
constexpr int kRun = 16;  // consecutive positions per warp; smear's extra position costs 6 %

inline std::int64_t num_blocks(const TokenEmbeddingArgs& args) {
  return (args.batch * ((args.length + kRun - 1) / kRun) + kWarps - 1) / kWarps;
}

// This warp's positions [begin, end) in a sequence whose first position is `sequence_start`; empty
// for warps beyond the last run.
struct Run {
  std::int64_t sequence_start, begin = 0, end = 0;
  __device__ Run(std::int64_t batch, std::int64_t length) {
    const std::int64_t run = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
    const std::int64_t runs_per_sequence = (length + kRun - 1) / kRun;
    sequence_start = run / runs_per_sequence * length;
    if (run >= batch * runs_per_sequence) return;
    begin = run % runs_per_sequence * kRun;
    end = begin + kRun < length ? begin + kRun : length;
  }
};

// A lane's packs of a row, every 32nd; zeros beyond the width.
template <typename T, int kPacks>
struct RowPacks {
  static constexpr int size = Pack<T>::size;
  Pack<T> packs[kPacks];

  static __device__ int column(int j) { return (j * kWarp + threadIdx.x % kWarp) * size; }
  __device__ void clear() {
#pragma unroll
    for (int j = 0; j < kPacks; ++j) packs[j] = {};
  }
  __device__ void load(const T* from, int width) {
    clear();
#pragma unroll
    for (int j = 0; j < kPacks; ++j) {
      if (column(j) < width) packs[j] = load_pack(from + column(j));
    }
  }
  __device__ float operator()(int j, int k) const {
    return packs[j][k];
  }
};
template <typename T, int kPacks>
using Values = float[kPacks][Pack<T>::size];

// Calls op(j, k, column) for element k of pack j, for all of a lane's elements.
template <typename T, int kPacks, typename Op>
__device__ void for_each_element(Op op) {
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) op(j, k, RowPacks<T, kPacks>::column(j) + k);
  }
}
// Stores to[column] = op(j, k).
template <typename T, int kPacks, typename Op>
__device__ void store_row(T* to, int width, Op op) {
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    float values[Pack<T>::size];
#pragma unroll
    for (int k = 0; k < Pack<T>::size; ++k) values[k] = op(j, k);
    if (RowPacks<T, kPacks>::column(j) < width)
      store_rounded(to + RowPacks<T, kPacks>::column(j), values);
  }
}

// Computes a row before RMSNorm: x = table[id] + scale·bigram.
template <typename T, int kPacks>
struct TokenSum {
  RowPacks<T, kPacks> token, bigram;

  TokenSum() = default;
  __device__ TokenSum(const TokenEmbeddingArgs& args, std::int64_t position) {
    token.load(static_cast<const T*>(args.table) + args.ids[position] * args.width, args.width);
    if (args.bigram == nullptr) {
      bigram.clear();
    } else {
      bigram.load(static_cast<const T*>(args.bigram) + position * args.width, args.width);
    }
  }
  __device__ void clear() {
    token.clear();
    bigram.clear();
  }
  __device__ float operator()(int j, int k, float scale) const {
    return fmaf(scale, bigram(j, k), token(j, k));
  }
};

// Accumulates a block's sums [columns] and stores them in its row of `partials` [blocks, columns].
// Warps add in a fixed order; `add(sums)` is called by all lanes of a warp.
template <typename Add>
__device__ void store_block_sums(float* partials, int columns, Add add) {
  extern __shared__ float sums[];  // [columns]
  for (int i = threadIdx.x; i < columns; i += kWarps * kWarp) sums[i] = 0;
  for (int adding_warp = 0; adding_warp < kWarps; ++adding_warp) {
    __syncthreads();
    if (threadIdx.x / kWarp == adding_warp) add(sums);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += kWarps * kWarp)
    partials[std::int64_t{blockIdx.x} * columns + i] = sums[i];
}

// Calls op(T{}, packs per lane) with the smallest instantiated number of packs that holds a row.
template <typename Op>
void dispatch_row(const TokenEmbeddingArgs& args, Op op) {
  dispatch(args.dtype, [&](auto zero) {
    const auto with_columns = [&](auto columns) {
      op(zero, std::integral_constant<int, columns / Pack<decltype(zero)>::size>());
    };
    if (args.width <= 16 * kWarp) return with_columns(std::integral_constant<int, 16>());
    if (args.width <= 24 * kWarp) return with_columns(std::integral_constant<int, 24>());
    with_columns(std::integral_constant<int, kMaxTokenWidth / kWarp>());
  });
}

// Kernels of gated_token_embedding.cu. gated_backward() writes `partials`, which the caller sums.
void gated_forward(const TokenEmbeddingArgs& args, void* y, Stream stream);
void gated_backward(const TokenEmbeddingArgs& args, const TokenEmbeddingGradients& gradients,
                    Stream stream);

}  // namespace tg::cuda
