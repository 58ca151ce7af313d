#pragma once
// What an epilogue of gemm.cuh knows of its tile: which of the rows a thread has.
#include <type_traits>

#include "ops/kernels.cuh"

namespace tg::cuda::hopper {

constexpr int kBlockM = 128;     // rows of a tile; it has block_n columns
constexpr int kSubtileN = 64;    // columns that are stored at once
constexpr int kClusterSize = 2;  // CTAs, one tile below the other
constexpr int kWarpgroupThreads = 128;
constexpr int kWarpgroupWarps = kWarpgroupThreads / kWarp;
constexpr int kWgmmaM = 64, kWgmmaTiles = kBlockM / kWgmmaM;  // wgmma tiles in a tile, along M
constexpr int kSubtileAccumulators = kSubtileN / 2;           // of a thread, in one wgmma tile

template <typename Element>
constexpr bool is_transposed = sizeof(Element) == 1;  // C and D

// Columns of a tile for a D of `width`: the fewer tiles, the less is read, unless the last one is
// mostly empty.
constexpr int tile_columns(int width) {
  return width % 192 == 0 ? 192 : 128;
}
// launch(std::integral_constant of these columns)
template <typename Launch>
void dispatch_tile_columns(int width, Launch launch) {
  if (tile_columns(width) == 192)
    launch(std::integral_constant<int, 192>{});
  else
    launch(std::integral_constant<int, 128>{});
}

// A tile's first row and column, and its index among all tiles of all CTAs.
struct TileInfo {
  int row, column, index;
};
// Scales of FP8 operands, in device memory: A and B are these times their elements.
struct OperandScales {
  const float *a, *b;

  __device__ float product() const { return *a * *b; }
};

// Rows of a consumer thread's accumulators: two of each wgmma tile, 8 apart.
struct ThreadRows {
  int first;

  explicit __device__ ThreadRows(const TileInfo& tile)
      : first(tile.row + static_cast<int>(threadIdx.x) / kWarp % kWarpgroupWarps * 16 +
              static_cast<int>(threadIdx.x) % kWarp / 4) {}

  // Calls visit(wgmma tile, the first or the second row in it, row).
  template <typename Visit>
  __device__ void for_each(Visit visit) const {
#pragma unroll
    for (int mma = 0; mma < kWgmmaTiles; ++mma) {
#pragma unroll
      for (int half = 0; half < 2; ++half) visit(mma, half, first + mma * kWgmmaM + half * 8);
    }
  }
  // Calls visit(row, sum) once for each row below `rows`, with the sum over its four lanes' `sums`.
  // Called by all lanes of a warp.
  template <typename Visit>
  __device__ void for_each_sum(const float (&sums)[kWgmmaTiles][2], int rows, Visit visit) const {
    for_each([&](int mma, int half, int row) {
      const float sum = warp_sum<4>(sums[mma][half]);
      if (threadIdx.x % 4 == 0 && row < rows) visit(row, sum);
    });
  }
};

}  // namespace tg::cuda::hopper
