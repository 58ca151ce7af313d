// GPTQ's sequential pass over a block of columns: one warp per row, each lane holds every 32nd
// column. ATen needs about eight launches per column. U is in shared memory; each CTA loads it once
// for all its rows.
#include "ops/kernels.cuh"
#include "ops/quantize/gptq_kernel.h"

namespace tg::cuda {

namespace {

constexpr int kWarps = 8;
constexpr int kLaneColumns = kGptqBlock / kWarp;
constexpr int kSharedBytes = kGptqBlock * kGptqBlock * sizeof(float);

// Loads U, padded with columns of the identity: weights beyond the block quantize to 0 and change
// no other column.
__device__ void load_factor(const GptqBlock& block, float* factor) {
  for (int i = threadIdx.x; i < kGptqBlock * kGptqBlock; i += kWarps * kWarp) {
    const int row = i / kGptqBlock, column = i % kGptqBlock;
    const bool inside = row < block.columns && column < block.columns;
    factor[i] = inside          ? block.factor[row * block.factor_stride + column]
                : row == column ? 1.0f
                                : 0.0f;
  }
  __syncthreads();
}

// Multiplications and subtractions are rounded separately, as in the ATen reference: an FMA would
// change results.
__global__ void __launch_bounds__(kWarps* kWarp) block_kernel(const GptqBlock block) {
  extern __shared__ float factor[];  // [kGptqBlock, kGptqBlock]
  load_factor(block, factor);
  const int lane = threadIdx.x % kWarp;
  const std::int64_t warps = std::int64_t{gridDim.x} * kWarps;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; row < block.rows;
       row += warps) {
    const float scale = block.scale[row];
    float weights[kLaneColumns];
#pragma unroll
    for (int part = 0; part < kLaneColumns; ++part) {
      const int column = part * kWarp + lane;
      weights[part] =
          column < block.columns ? block.weight[row * block.weight_stride + column] : 0.0f;
    }
#pragma unroll
    for (int part = 0; part < kLaneColumns; ++part) {
      float lane_q = 0, lane_error = 0;
      for (int from = 0; from < kWarp; ++from) {
        const float* const u = factor + (part * kWarp + from) * kGptqBlock;
        const float weight = __shfl_sync(0xffffffff, weights[part], from);
        const float q = fminf(fmaxf(rintf(__fdiv_rn(weight, scale)), -block.levels), block.levels);
        const float error =
            __fdiv_rn(__fsub_rn(weight, __fmul_rn(q, scale)), u[part * kWarp + from]);
        if (lane == from) lane_q = q, lane_error = error;
#pragma unroll
        for (int later = part; later < kLaneColumns; ++later)
          weights[later] = __fsub_rn(weights[later], __fmul_rn(error, u[later * kWarp + lane]));
      }
      const int column = part * kWarp + lane;
      if (column < block.columns) {
        block.q[row * block.weight_stride + column] = static_cast<std::int8_t>(lane_q);
        block.error[row * block.columns + column] = lane_error;
      }
    }
  }
}

}  // namespace

void gptq_block(const GptqBlock& block, Stream stream) {
  if (block.rows == 0) return;
  cudaFuncSetAttribute(block_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  const int blocks = blocks_for((block.rows + kWarps - 1) / kWarps, 3);
  block_kernel<<<blocks, kWarps * kWarp, kSharedBytes, stream>>>(block);
  check_launch("gptq_block");
}

}  // namespace tg::cuda
