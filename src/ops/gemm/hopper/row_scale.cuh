#pragma once
// Row scales for epilogues: apply the RMSNorm before a GEMM to the rows of A·B.
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

// FP8 rows are scaled before quantization and have no RowScale.
struct RowScale {
  const float* values = nullptr;  // [rows]; null: 1
  int rows = 0;
};

// Scales of a consumer thread's rows. Construct it with the epilogue's Tile, so that the loads
// overlap the last wgmma. Epilogues fold the scales into factors that they already apply, since an
// extra multiplication per accumulator is measurable.
struct ThreadRowScales {
  float values[kWgmmaTiles][2];

  __device__ ThreadRowScales(const RowScale& scale, const ThreadRows& rows) {
    rows.for_each([&](int mma, int half, int row) {
      values[mma][half] = scale.values == nullptr ? 1 : scale.values[min(row, scale.rows - 1)];
    });
  }
};

}  // namespace tg::cuda::hopper
