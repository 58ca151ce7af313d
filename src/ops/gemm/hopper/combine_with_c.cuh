#pragma once
// Helpers for epilogues that read C.
#include "ops/gemm/hopper/fp8_tile.cuh"

namespace tg::cuda::hopper {

// C's elements at a thread's accumulators of chunks `chunk` and `chunk` + 1; call load() with even
// chunks in ascending order.
template <typename Element, bool fp8 = is_transposed<Element>>
struct InputChunks {
  unsigned words[4];

  __device__ void load(const SubtileView<Element>& smem, int chunk) { smem.load(chunk, words); }
  __device__ float operator()(int, int i) const {
    return i % 2 == 0 ? low_of<Element>(words[i / 2]) : high_of<Element>(words[i / 2]);
  }
};

// e4m3: one load covers four chunks.
template <typename Element>
struct InputChunks<Element, true> {
  unsigned words[4];

  __device__ void load(const SubtileView<Element>& smem, int chunk) {
    if (chunk % 4 == 0) smem.load(chunk, words);
  }
  __device__ float operator()(int chunk, int i) const {
    const float2 column = from_e4m3_pair(words[chunk % 4 + i / 4] >> i % 2 * 16);
    return i / 2 % 2 == 0 ? column.x : column.y;
  }
};

// Stores op(accumulator, C's element, row), like store_each().
template <typename Element, typename Op>
__device__ void combine_with_c(OutputTile<Element>& output, const SubtileView<Element>& smem,
                               int subtile, const float* accumulators, Op op) {
  InputChunks<Element> input;
#pragma unroll
  for (int chunk = 0; chunk < kSubtileN / 8; chunk += 2) {
    input.load(smem, chunk);
    float d[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) d[i] = op(accumulators[4 * chunk + i], input(chunk, i), i / 2 % 2);
    output.store(smem, subtile, chunk, d);
  }
}

}  // namespace tg::cuda::hopper
