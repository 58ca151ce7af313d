#pragma once
// For epilogues that read C.
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda::hopper {

// Stores op(accumulator, C's element, row) for the 32 accumulators of one wgmma tile of a subtile,
// in order; row 0 is the first of the thread's two. For 16-bit elements.
template <typename T, typename Op>
__device__ void combine_with_c(const SubtileView<T>& smem, const float* accumulators, Op op) {
#pragma unroll
  for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
    unsigned c[4];
    smem.load(chunk, c);
    float d[8];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float low = low_of<T>(c[w]), high = high_of<T>(c[w]);
      const float* const x = accumulators + 4 * chunk + 2 * w;
      d[2 * w] = op(x[0], low, w % 2);
      d[2 * w + 1] = op(x[1], high, w % 2);
    }
    smem.store_rounded(chunk, d);
  }
}

}  // namespace tg::cuda::hopper
