#include "ops/kernels.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kWarps = kWarp;

__device__ inline void write(const AllColumnSums& targets, std::int64_t column, float sum) {
#pragma unroll
  for (const auto& [columns, target] : targets.parts) {
    if (column >= 0 && column < columns && target.to != nullptr)
      target.to[column] = target.adds ? target.to[column] + sum : sum;
    column -= columns;
  }
}

// A CTA of 32 warps sums 32 columns: each warp sums every 32nd row, then each warp reduces one
// column over the warps.
__global__ void __launch_bounds__(kWarp* kWarps)
    sum_rows_kernel(const float* __restrict__ partials, std::int64_t rows, std::int64_t columns,
                    const __grid_constant__ AllColumnSums targets) {
  __shared__ float sums[kWarps][kWarp + 1];
  const auto first = std::int64_t{blockIdx.x} * kWarp;
  float sum = 0;
  if (first + threadIdx.x < columns) {
#pragma unroll 4
    for (std::int64_t row = threadIdx.y; row < rows; row += kWarps)
      sum += partials[row * columns + first + threadIdx.x];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const auto column = first + threadIdx.y;
  if (threadIdx.x == 0) write(targets, column, sum);
}

}  // namespace

void sum_rows(const float* partials, std::int64_t rows, const AllColumnSums& sums, Stream stream) {
  const auto columns = sums.columns();
  const auto blocks = static_cast<unsigned>((columns + kWarp - 1) / kWarp);
  sum_rows_kernel<<<blocks, dim3(kWarp, kWarps), 0, stream>>>(partials, rows, columns, sums);
  check_launch("sum_rows");
}

}  // namespace tg::cuda
