#pragma once
// A tile of FP8 rows in shared memory, and its transpose in global memory, with interleaved rows
// (fp8_kernel.h) or without.
#include "ops/gemm/fp8_kernel.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kTileThreads = 256, kTile = 128;         // bytes; a tile is square
constexpr int kTileChunks = kTile / sizeof(uint4);     // 16-byte chunks per row
constexpr int kTileGroups = kTile / kInterleavedRows;  // groups of interleaved rows
constexpr int kWords = sizeof(uint4) / sizeof(unsigned);
// Each thread transposes four columns (one word) of one group of rows.
static_assert(kTileThreads == kTileGroups * kTile / kWords);

// Transposes a 4×4 matrix of bytes.
__device__ inline void transpose_bytes(unsigned (&w)[kWords]) {
  const unsigned low01 = __byte_perm(w[0], w[1], 0x5140), high01 = __byte_perm(w[0], w[1], 0x7362);
  const unsigned low23 = __byte_perm(w[2], w[3], 0x5140), high23 = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(low01, low23, 0x5410), w[1] = __byte_perm(low01, low23, 0x7632);
  w[2] = __byte_perm(high01, high23, 0x5410), w[3] = __byte_perm(high01, high23, 0x7632);
}

struct Fp8Tile {
  // Chunks are swizzled by the row's group: the lanes of a warp read one row of each group, without
  // bank conflicts.
  uint4 chunks[kTile][kTileChunks];

  __device__ uint4& chunk(int row, int chunk) {
    return chunks[row][chunk ^ row / kInterleavedRows];
  }
};

// A matrix [rows, columns], and its transpose [columns, out_columns]; `columns` is a multiple
// of 16.
struct TiledMatrix {
  std::int64_t rows;
  int columns;
  std::int64_t out_columns = fp8_interleaved(rows);

  dim3 grid() const {
    const auto tiles = [](std::int64_t size) {
      return static_cast<unsigned>((size + kTile - 1) / kTile);
    };
    return dim3(tiles(rows), tiles(columns));
  }
};

// This CTA's tile of a matrix, in its grid().
class TilePlace {
 public:
  __device__ explicit TilePlace(const TiledMatrix& matrix)
      : rows_(matrix.rows),
        out_columns_(matrix.out_columns),
        first_row_(std::int64_t{blockIdx.x} * kTile),
        columns_(matrix.columns),
        first_column_(static_cast<int>(blockIdx.y) * kTile) {}

  // Calls op(row of the tile, chunk of the row, index of the chunk's first element in the matrix,
  // or -1 if it is outside) for this thread's chunks.
  template <typename Op>
  __device__ void for_each_chunk(Op op) const {
#pragma unroll
    for (int i = threadIdx.x; i < kTile * kTileChunks; i += kTileThreads) {
      const int row = i / kTileChunks, chunk = i % kTileChunks;
      const int column = first_column_ + chunk * static_cast<int>(sizeof(uint4));
      const bool inside = first_row_ + row < rows_ && column < columns_;
      op(row, chunk, inside ? (first_row_ + row) * columns_ + column : -1);
    }
  }

  // The tile's other chunks, which are outside the matrix, must be zero.
  template <bool interleaved = true>
  __device__ void store_transposed(Fp8Tile& tile, unsigned char* transposed) const {
    if (!has_group()) return;
    unsigned words[kWords][kWords];  // [quarter of the group][column]
    for_each_word<interleaved>(
        tile, [&](int quarter, int i, unsigned& word) { words[quarter][i] = word; });
#pragma unroll
    for (auto& quarter : words) transpose_bytes(quarter);
#pragma unroll
    for (int c = 0; c < kWords; ++c)
      *reinterpret_cast<uint4*>(transposed + column_offset(c)) =
          make_uint4(words[0][c], words[1][c], words[2][c], words[3][c]);
  }
  // Undoes store_transposed() with interleaved rows.
  __device__ void load_transposed(Fp8Tile& tile, const unsigned char* transposed) const {
    if (!has_group()) return;
    unsigned words[kWords][kWords];
#pragma unroll
    for (int c = 0; c < kWords; ++c) {
      const uint4 rows = *reinterpret_cast<const uint4*>(transposed + column_offset(c));
      words[0][c] = rows.x, words[1][c] = rows.y, words[2][c] = rows.z, words[3][c] = rows.w;
    }
#pragma unroll
    for (auto& quarter : words) transpose_bytes(quarter);
    for_each_word<true>(tile,
                        [&](int quarter, int i, unsigned& word) { word = words[quarter][i]; });
  }

 private:
  __device__ static int group() {
    return static_cast<int>(threadIdx.x) % kTileGroups;
  }
  __device__ static int word() {
    return static_cast<int>(threadIdx.x) / kTileGroups;
  }
  // Whether this thread's group and word are inside the transpose.
  __device__ bool has_group() const {
    return first_row_ + group() * kInterleavedRows < out_columns_ &&
           first_column_ + word() * kWords < columns_;
  }
  // Offset in the transpose of this thread's group of rows of its column c.
  __device__ std::int64_t column_offset(int c) const {
    return (first_column_ + word() * kWords + c) * out_columns_ + first_row_ +
           group() * kInterleavedRows;
  }
  // Calls op(quarter, i, word) for this thread's word of each row of its group, in the transpose's
  // order of rows.
  template <bool interleaved, typename Op>
  __device__ static void for_each_word(Fp8Tile& tile, Op op) {
#pragma unroll
    for (int quarter = 0; quarter < kWords; ++quarter) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const int in_group = interleaved ? quarter * 2 + i / 2 + i % 2 * 8 : quarter * kWords + i;
        auto& chunk = tile.chunk(group() * kInterleavedRows + in_group, word() / kWords);
        op(quarter, i, reinterpret_cast<unsigned*>(&chunk)[word() % kWords]);
      }
    }
  }

  std::int64_t rows_, out_columns_, first_row_;
  int columns_, first_column_;
};

}  // namespace tg::cuda
