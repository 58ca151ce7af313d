#pragma once
// What the rows of A are multiplied by, for epilogues: the norm that stands before a GEMM.
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

struct RowScale {
  const float* values = nullptr;  // [rows]; null: 1
  int rows = 0;

  // Scales a thread's accumulators of the tile whose first row is `first_row`.
  template <int block_n>
  __device__ void apply(Accumulators<block_n>& accumulators, int first_row) const {
    if (values == nullptr) return;
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
#pragma unroll
    for (int mma = 0; mma < kWgmmaTiles; ++mma) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + mma * kWgmmaM + warp * 16 + half * 8 + lane / 4;
        const float scale = values[min(row, rows - 1)];
        float* const x = accumulators.mma[mma].values + 2 * half;
#pragma unroll
        for (int j = 0; j < block_n / 2; j += 4) x[j] *= scale, x[j + 1] *= scale;
      }
    }
  }
};

}  // namespace tg::cuda::hopper
