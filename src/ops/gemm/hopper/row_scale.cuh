#pragma once
// What the rows of A·B are yet to be multiplied by, for epilogues: the norm that stands before a
// GEMM.
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

// Rows in FP8 are rounded scaled.
struct RowScale {
  const float* values = nullptr;  // [rows]; null: 1
  int rows = 0;
};

// Of the rows of a consumer thread's accumulators: two of each wgmma tile, 8 apart. To be made with
// the epilogue's Tile, so that the loads are in flight beside the last wgmma. Epilogues multiply
// them into factors that they have anyway, since a product more for each accumulator shows.
struct ThreadRowScales {
  float of[kWgmmaTiles][2];

  // `first_row`: of the tile.
  __device__ ThreadRowScales(const RowScale& scale, int first_row) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % kWarpgroupWarps;
    const int row = first_row + warp * 16 + lane / 4;
#pragma unroll
    for (int mma = 0; mma < kWgmmaTiles; ++mma) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        of[mma][half] = scale.values == nullptr
                            ? 1
                            : scale.values[min(row + mma * kWgmmaM + half * 8, scale.rows - 1)];
    }
  }
};

}  // namespace tg::cuda::hopper
