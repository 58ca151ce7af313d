#pragma once
// What the rows of A·B are yet to be multiplied by, for epilogues: the norm that stands before a
// GEMM.
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

// Rows in FP8 are scaled before they are rounded, and have none.
struct RowScale {
  const float* values = nullptr;  // [rows]; null: 1
  int rows = 0;
};

// Row scales of a consumer thread's rows. Construct it with the epilogue's Tile, so that the loads
// are in flight beside the last wgmma. Epilogues multiply them into factors that they have anyway,
// since another multiplication per accumulator costs time.
struct ThreadRowScales {
  float of[kWgmmaTiles][2];

  __device__ ThreadRowScales(const RowScale& scale, const ThreadRows& rows) {
    rows.for_each([&](int mma, int half, int row) {
      of[mma][half] = scale.values == nullptr ? 1 : scale.values[min(row, scale.rows - 1)];
    });
  }
};

}  // namespace tg::cuda::hopper
