#pragma once
// Device code shared by residual_norm and mix_norm: writing a CTA's partial sums, the norm and its
// gradient, and dispatch by layout and FP8 copies.
#include <type_traits>

#include "ops/norm/residual_norm_kernel.h"
#include "ops/norm/row_lanes.cuh"

namespace tg::cuda {

static_assert(kMaxResidualNormWidth == kMaxRowWarps * kWarpColumns);

// Writes a CTA's partial sum of one parameter vector's gradient, adding the warps' sums in warp
// order.
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
    __syncthreads();  // until the previous vector has been read
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
// Writes a CTA's partial sums of scalar parameters' gradients from the threads' parts.
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

// Writes a row y = c·r·x, with r = 1/√(mean(x²) + ε), its scale c·r and its FP8 copy, each if
// requested. `squares`: the thread's part of Σx².
template <typename Layout, typename Writer>
__device__ void write_normed(const typename Layout::Row& x, float squares, std::int64_t row,
                             int width, int channels, float norm_scale, void* y, float* row_scale,
                             Writer& copy) {
  const int column = Layout::column();
  const auto offset = row * width + column;
  const float mean = Layout::row_sum(squares) / static_cast<float>(channels);
  const float scale = norm_scale * rsqrtf(mean + kNormEpsilon);
  if (row_scale != nullptr && column == 0) row_scale[row] = scale;
#pragma unroll
  for (int k = 0; k < Layout::chunks; ++k) {
    if (column + k * kWarpColumns >= width) continue;
    float normed[kLaneColumns];
#pragma unroll
    for (int i = 0; i < kLaneColumns; ++i) normed[i] = x.chunks[k][i] * scale;
    Layout::store_chunk(y, offset, k, normed);
    copy.store(offset + k * kWarpColumns, Pack8<typename Layout::T>::rounded(normed));
  }
}

// Coefficients of the gradient of y = c·r·x with r = 1/√(mean(x²) + ε): dx = c·r·(dy −
// x·r²·mean(x·dy)) = scale·(dy − x_scale·x).
struct NormGradient {
  float scale, x_scale;
};
// Reduces the threads' parts of Σx² and Σx·dy.
template <typename Layout>
__device__ NormGradient norm_gradient(float squares, float dots, int channels, float norm_scale,
                                      bool dy_is_scaled) {
  const float inverse_channels = 1 / static_cast<float>(channels);
  const float inverse_rms = rsqrtf(Layout::row_sum(squares) * inverse_channels + kNormEpsilon);
  return {dy_is_scaled ? 1 : norm_scale * inverse_rms,
          Layout::row_sum(dots) * inverse_channels * inverse_rms * inverse_rms};
}

// Calls op(RowLayout) for the dtype and width. fp32 rows, which take twice the registers, and rows
// of more than kMaxChunks chunks use a CTA per row.
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

// Launches a forward kernel of `warps` warps a CTA, unless the layout has a CTA per row.
template <typename Layout, typename Args>
void launch_forward(void (*kernel)(Args), const Args& args, int warps, Stream stream) {
  const int threads = Layout::threads(args.rows.width, warps);
  const int rows_per_block = Layout::rows_per_block(threads);
  const int blocks = blocks_for((args.rows.count + rows_per_block - 1) / rows_per_block, 32);
  kernel<<<blocks, threads, 0, stream>>>(args);
}

// Launches a backward kernel and sums its rows of args.partials [CTAs, columns], the workspace. One
// wave of CTAs, since more would only add rows.
template <typename Layout, typename Args>
void launch_backward(void (*kernel)(Args), Args args, int warps, const AllColumnSums& sums,
                     const Workspace& workspace, const char* name, Stream stream) {
  const int threads = Layout::threads(args.rows.width, warps);
  const int rows_per_block = Layout::rows_per_block(threads);
  int resident = 1;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0);
  const int blocks = blocks_for((args.rows.count + rows_per_block - 1) / rows_per_block, resident);
  const auto columns = sums.columns();
  args.partials = columns > 0 ? workspace(blocks * columns) : nullptr;
  kernel<<<blocks, threads, 0, stream>>>(args);
  check_launch(name);
  if (columns > 0) sum_rows(args.partials, blocks, sums, stream);
}

}  // namespace tg::cuda
