#include "ops/gemm/fp8.cuh"
#include "ops/gemm/fp8_tile.cuh"

namespace tg::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    round_kernel(const T* x, std::int64_t chunks, Fp8Copy copy) {
  const float inverse_scale = 1 / *copy.scale;
  float amax = 0;
  const auto stride = std::int64_t{gridDim.x} * kThreads;
  for (auto i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < chunks; i += stride) {
    const auto x_pack = load_pack<T, kFp8Chunk>(x + i * kFp8Chunk);
    __stwb(static_cast<uint4*>(copy.values) + i, fp8_chunk(x_pack, inverse_scale, amax));
  }
  raise_amax(copy.amax, amax);
}

// Each CTA writes a tile of a matrix and of its transpose, so that the weights are read once.
template <typename T>
__global__ void __launch_bounds__(kTileThreads)
    round_bank_kernel(Fp8Bank bank, TiledMatrix matrix) {
  __shared__ Fp8Tile tile;
  const TilePlace place(matrix);
  const auto first = std::int64_t{blockIdx.z} * bank.rows * bank.columns;
  const float scale = bank.scales[blockIdx.z * bank.scale_stride];
  place.for_each_chunk([&](int row, int chunk, std::int64_t at) {
    uint4& rounded = tile.chunk(row, chunk);
    rounded = make_uint4(0, 0, 0, 0);
    if (at < 0) return;
    const auto x = load_pack<T, kFp8Chunk>(static_cast<const T*>(bank.bank) + first + at);
    rounded = fp8_chunk([&](int i) { return x[i] / scale; });
    *reinterpret_cast<uint4*>(static_cast<unsigned char*>(bank.values) + first + at) = rounded;
  });
  if (bank.transposed == nullptr) return;
  __syncthreads();
  place.store_transposed</*interleaved=*/false>(
      tile, static_cast<unsigned char*>(bank.transposed) + first);
}

}  // namespace

void fp8_round(const void* x, std::int64_t count, const Fp8Copy& copy, Dtype dtype, Stream stream) {
  const auto chunks = count / kFp8Chunk;
  if (chunks == 0) return;
  dispatch_half(dtype, [&](auto zero) {
    using T = decltype(zero);
    round_kernel<<<blocks_for((chunks + kThreads - 1) / kThreads, 8), kThreads, 0, stream>>>(
        static_cast<const T*>(x), chunks, copy);
  });
  check_launch("fp8_round");
}

void fp8_round_bank(const Fp8Bank& bank, Dtype dtype, Stream stream) {
  if (bank.matrices * bank.rows * bank.columns == 0) return;
  const TiledMatrix matrix{bank.rows, static_cast<int>(bank.columns)};
  auto grid = matrix.grid();
  grid.z = static_cast<unsigned>(bank.matrices);
  dispatch_half(dtype, [&](auto zero) {
    round_bank_kernel<decltype(zero)><<<grid, kTileThreads, 0, stream>>>(bank, matrix);
  });
  check_launch("fp8_round_bank");
}

}  // namespace tg::cuda
