#pragma once
// What the kernels of residual_norm and lanes_norm share: parameters of a lane's columns, partial
// sums of a block, and which layout and writers a call takes.
#include <type_traits>

#include "ops/norm/residual_norm_kernel.h"
#include "ops/norm/row_lanes.cuh"

namespace tg::cuda {

static_assert(kMaxResidualNormWidth == kMaxRowWarps * kWarpColumns);

// A null parameter is `absent` everywhere; one that is no vector is the scalar *from.
__device__ inline Pack8<float> load_parameter(const float* from, bool is_vector, float absent,
                                              int column) {
  if (from != nullptr && is_vector) return load_pack<float, kLaneColumns>(from + column);
  const unsigned word = __float_as_uint(from == nullptr ? absent : *from);
  return {{word, word, word, word, word, word, word, word}};
}

// A block's partial sum of one parameter vector's gradient: the warps' sums, added in warp order.
template <typename Layout, int kCount>
__device__ void write_vector_partial(const float (&sums)[Layout::chunks][kLaneColumns], int width,
                                     float* out) {
  const int column = Layout::column();
  if constexpr (Layout::block_per_row) {
    if (column >= width) return;
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) out[column + i] = sums[0][i];
  } else {
    __shared__ float warps[kCount][Layout::chunks * kWarpColumns];
    __syncthreads();  // the previous vector has been read
#pragma unroll
    for (int k = 0; k < Layout::chunks; ++k)
#pragma unroll
      for (int i = 0; i < kLaneColumns; ++i)
        warps[threadIdx.x / kWarp][column + k * kWarpColumns + i] = sums[k][i];
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < width; c += kCount * kWarp) {
      float sum = 0;
      for (int warp = 0; warp < kCount; ++warp) sum += warps[warp][c];
      out[c] = sum;
    }
  }
}
// The same of scalars, of which each thread has a part.
template <int kScalars>
__device__ void write_scalar_partials(const float (&parts)[kScalars], float* out) {
  constexpr int kMaxWarps = 16;
  __shared__ float warps[kScalars][kMaxWarps];
#pragma unroll
  for (int i = 0; i < kScalars; ++i) {
    const float part = warp_sum(parts[i]);
    if (threadIdx.x % kWarp == 0) warps[i][threadIdx.x / kWarp] = part;
  }
  __syncthreads();
  if (threadIdx.x >= kScalars) return;
  float sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) sum += warps[threadIdx.x][warp];
  out[threadIdx.x] = sum;
}

// Calls op(RowLayout) for the dtype and width. fp32 rows take twice the registers, hence a
// block per row; so do widths of more than kMaxChunks chunks.
template <int kMaxChunks = 3, typename Op>
void dispatch_layout(const ResidualNormRows& rows, Op op) {
  dispatch(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2) {
      if (rows.width <= 2 * kWarpColumns) return op(RowLayout<T, 2>{});
      if constexpr (kMaxChunks >= 3)
        if (rows.width <= 3 * kWarpColumns) return op(RowLayout<T, 3>{});
    }
    op(RowLayout<T, 1>{});
  });
}

// Calls op(std::true_type) where there is a copy, which only bf16 has kernels for.
template <typename Layout, typename Op>
void dispatch_copies(bool copies, Op op) {
  if constexpr (std::is_same_v<typename Layout::T, __nv_bfloat16>) {
    if (copies) return op(std::true_type{});
  }
  op(std::false_type{});
}

}  // namespace tg::cuda
