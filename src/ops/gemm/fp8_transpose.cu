// Transposes FP8 rows for weight-gradient GEMMs, which read both operands along the rows.
// Memory-bound: a CTA loads a tile by rows, and each thread stores 16 bytes of each of its four
// columns.
#include "ops/gemm/fp8_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256, kTile = 128;             // bytes; a tile is square
constexpr int kTileChunks = kTile / sizeof(uint4);     // 16-byte chunks per row
constexpr int kTileGroups = kTile / kInterleavedRows;  // groups of interleaved rows
constexpr int kWords = sizeof(uint4) / sizeof(unsigned);

struct Tile {
  // Chunks are swizzled by the row's group: the lanes of a warp read one row of each group, without
  // bank conflicts.
  uint4 chunks[kTile][kTileChunks];

  __device__ uint4& chunk(int row, int chunk) {
    return chunks[row][chunk ^ row / kInterleavedRows];
  }
};

// Transposes a 4×4 matrix of bytes.
__device__ void transpose_bytes(unsigned (&w)[kWords]) {
  const unsigned low01 = __byte_perm(w[0], w[1], 0x5140), high01 = __byte_perm(w[0], w[1], 0x7362);
  const unsigned low23 = __byte_perm(w[2], w[3], 0x5140), high23 = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(low01, low23, 0x5410), w[1] = __byte_perm(low01, low23, 0x7632);
  w[2] = __byte_perm(high01, high23, 0x5410), w[3] = __byte_perm(high01, high23, 0x7632);
}

__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const unsigned char* __restrict__ x, std::int64_t rows, int columns,
                     unsigned char* __restrict__ transposed, std::int64_t out_columns) {
  __shared__ Tile tile;
  const int thread = static_cast<int>(threadIdx.x);
  const auto first_row = std::int64_t{blockIdx.x} * kTile;
  const int first_column = static_cast<int>(blockIdx.y) * kTile;
#pragma unroll
  for (int i = thread; i < kTile * kTileChunks; i += kThreads) {
    const int row = i / kTileChunks, chunk = i % kTileChunks;
    const int column = first_column + chunk * static_cast<int>(sizeof(uint4));
    const bool inside = first_row + row < rows && column < columns;
    const auto at = (first_row + row) * columns + column;
    tile.chunk(row, chunk) =
        inside ? *reinterpret_cast<const uint4*>(x + at) : make_uint4(0, 0, 0, 0);
  }
  __syncthreads();

  // Each thread transposes four columns (one word) of one group of rows.
  static_assert(kThreads == kTileGroups * kTile / kWords);
  const int group = thread % kTileGroups, word = thread / kTileGroups;
  unsigned words[kWords][kWords];  // [quarter of the group][column]
#pragma unroll
  for (int quarter = 0; quarter < kWords; ++quarter) {
    auto& w = words[quarter];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int row = group * kInterleavedRows + quarter * 2 + i / 2 + i % 2 * 8;
      w[i] = reinterpret_cast<const unsigned*>(&tile.chunk(row, word / kWords))[word % kWords];
    }
    transpose_bytes(w);
  }
  const auto out_column = first_row + group * kInterleavedRows;
  const int column = first_column + word * kWords;
  if (out_column >= out_columns || column >= columns) return;
#pragma unroll
  for (int c = 0; c < kWords; ++c)
    *reinterpret_cast<uint4*>(transposed + (column + c) * out_columns + out_column) =
        make_uint4(words[0][c], words[1][c], words[2][c], words[3][c]);
}

}  // namespace

void fp8_transpose(const void* x, std::int64_t rows, int columns, void* transposed, Stream stream) {
  if (rows == 0 || columns == 0) return;
  const auto tiles = [](std::int64_t size) {
    return static_cast<unsigned>((size + kTile - 1) / kTile);
  };
  transpose_kernel<<<dim3(tiles(rows), tiles(columns)), kThreads, 0, stream>>>(
      static_cast<const unsigned char*>(x), rows, columns, static_cast<unsigned char*>(transposed),
      fp8_interleaved(rows));
  check_launch("fp8_transpose");
}

}  // namespace tg::cuda
