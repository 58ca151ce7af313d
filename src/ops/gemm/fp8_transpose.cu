// Transposes FP8 rows for weight-gradient GEMMs, which read both operands along the rows.
// Memory-bound: a CTA loads a tile by rows, and each thread stores 16 bytes of each of its four
// columns.
#include "ops/gemm/fp8_tile.cuh"

namespace tg::cuda {

namespace {

__global__ void __launch_bounds__(kTileThreads)
    transpose_kernel(const unsigned char* __restrict__ x, TiledMatrix matrix,
                     unsigned char* __restrict__ transposed) {
  __shared__ Fp8Tile tile;
  const TilePlace place(matrix);
  place.for_each_chunk([&](int row, int chunk, std::int64_t at) {
    tile.chunk(row, chunk) =
        at >= 0 ? *reinterpret_cast<const uint4*>(x + at) : make_uint4(0, 0, 0, 0);
  });
  __syncthreads();
  place.store_transposed(tile, transposed);
}

}  // namespace

void fp8_transpose(const void* x, std::int64_t rows, int columns, void* transposed, Stream stream) {
  if (rows == 0 || columns == 0) return;
  const TiledMatrix matrix{rows, columns};
  transpose_kernel<<<matrix.grid(), kTileThreads, 0, stream>>>(
      static_cast<const unsigned char*>(x), matrix, static_cast<unsigned char*>(transposed));
  check_launch("fp8_transpose");
}

}  // namespace tg::cuda
