#include <algorithm>

#include "ops/cuda/device.cuh"

namespace tg::cuda {

namespace {

constexpr int kRowLanes = 8;

// A block sums 32 columns: a row lane takes every eighth row, shared memory the lanes' sums.
__global__ void sum_rows_kernel(const float* __restrict__ partials, std::int64_t rows,
                                std::int64_t columns, float* __restrict__ out, bool accumulate) {
  __shared__ float sums[kRowLanes][kWarp];
  const auto column = std::int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0;
  if (column < columns) {
    for (std::int64_t row = threadIdx.y; row < rows; row += kRowLanes)
      sum += partials[row * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int lane = 1; lane < kRowLanes; ++lane) sum += sums[lane][threadIdx.x];
  out[column] = accumulate ? out[column] + sum : sum;
}

}  // namespace

void sum_rows(const float* partials, std::int64_t rows, std::int64_t columns, float* out,
              bool accumulate, Stream stream) {
  const auto blocks = static_cast<unsigned>((columns + kWarp - 1) / kWarp);
  sum_rows_kernel<<<blocks, dim3(kWarp, kRowLanes), 0, stream>>>(partials, rows, columns, out,
                                                                 accumulate);
  check_launch("sum_rows");
}

int blocks_for(std::int64_t wanted, int per_multiprocessor) {
  static const int multiprocessors = [] {
    int device = 0, count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
  }();
  const std::int64_t most = std::int64_t{per_multiprocessor} * multiprocessors;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

}  // namespace tg::cuda
