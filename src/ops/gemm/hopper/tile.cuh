#pragma once
// Tile geometry for the epilogues of gemm.cuh: which rows a thread holds.
#include <type_traits>

#include "ops/kernels.cuh"

namespace tg::cuda::hopper {

constexpr int kBlockM = 128;     // rows of a tile; it has block_n columns
constexpr int kSubtileN = 64;    // columns of an epilogue subtile
constexpr int kClusterSize = 2;  // CTAs along M
constexpr int kWarpgroupThreads = 128;
constexpr int kWarpgroupWarps = kWarpgroupThreads / kWarp;
constexpr int kWgmmaM = 64, kWgmmaTiles = kBlockM / kWgmmaM;  // wgmma tiles in a tile, along M
constexpr int kSubtileAccumulators = kSubtileN / 2;           // per thread, in one wgmma tile

template <typename Element>
constexpr bool is_transposed = sizeof(Element) == 1;  // layout of C and D
// FP8 D: within groups of 16 columns, column 8j + 2q + b of the accumulators, with j and b below 2,
// is column 4q + 2j + b of D.
constexpr int kReorderedColumns = 16;
__host__ __device__ constexpr int reordered_column(int column) {
  return column / 16 * 16 + column % 8 / 2 * 4 + column / 8 % 2 * 2 + column % 2;
}

// Returns the tile's columns for a D of `width` columns. Wider tiles read less in total, unless the
// last one is mostly empty.
constexpr int tile_columns(int width) {
  return width % 192 == 0 ? 192 : 128;
}
// Calls launch(std::integral_constant<int, tile_columns(width)>).
template <typename Launch>
void dispatch_tile_columns(int width, Launch launch) {
  if (tile_columns(width) == 192)
    launch(std::integral_constant<int, 192>{});
  else
    launch(std::integral_constant<int, 128>{});
}

// Columns of a consumer thread's accumulators (WgmmaAccumulators) in D. Where D is in FP8, the rows
// of B are in another order in shared memory (kReorderedColumns), so that a thread holds four
// adjacent columns instead of two, one word of a row.
template <typename Element>
struct ThreadColumns {
  static constexpr int kAdjacent = is_transposed<Element> ? 4 : 2;
  static constexpr int kPeriod = 4 * kAdjacent;  // a row's four lanes hold them

  static __device__ int first() { return static_cast<int>(threadIdx.x) % 4 * kAdjacent; }
  // Whether the thread holds column first() + offset.
  static __device__ constexpr bool holds(int offset) { return offset % kPeriod < kAdjacent; }
  // The accumulator of that column in the first of the thread's rows; the second row's is 2 later.
  static __device__ constexpr int accumulator(int offset) {
    return offset / kPeriod * 2 * kAdjacent + offset % kPeriod / 2 * 4 + offset % 2;
  }
};

// A tile's first row and column, and its index among all tiles of all CTAs.
struct TileInfo {
  int row, column, index;
};
// Dequantization scales of FP8 operands A and B, in device memory; accumulators are multiplied by
// both.
struct OperandScales {
  const float *a, *b;

  __device__ float product() const { return *a * *b; }
};

// Rows of a consumer thread's accumulators: two per wgmma tile, 8 apart.
struct ThreadRows {
  int first;

  explicit __device__ ThreadRows(const TileInfo& tile)
      : first(tile.row + static_cast<int>(threadIdx.x) / kWarp % kWarpgroupWarps * 16 +
              static_cast<int>(threadIdx.x) % kWarp / 4) {}

  // Calls visit(wgmma tile, 0 or 1 for the first or second row, row).
  template <typename Visit>
  __device__ void for_each(Visit visit) const {
#pragma unroll
    for (int mma = 0; mma < kWgmmaTiles; ++mma) {
#pragma unroll
      for (int half = 0; half < 2; ++half) visit(mma, half, first + mma * kWgmmaM + half * 8);
    }
  }
  // Reduces `sums` over the four lanes of each row and calls visit(row, sum) once for each row
  // below `rows`. All lanes of a warp must call it.
  template <typename Visit>
  __device__ void for_each_sum(const float (&sums)[kWgmmaTiles][2], int rows, Visit visit) const {
    for_each([&](int mma, int half, int row) {
      const float sum = warp_sum<4>(sums[mma][half]);
      if (threadIdx.x % 4 == 0 && row < rows) visit(row, sum);
    });
  }
};

}  // namespace tg::cuda::hopper
