#pragma once
// Signs of x·upᵀ: a uint2 per thread and subtile with one word per wgmma tile and one bit for each
// of its 32 accumulators, the first in the highest bit.
#include "ops/gemm/hopper/gemm_launch.cuh"
#include "ops/mlp/mlp_hopper.h"

namespace tg::cuda::hopper {

// Returns the size in bytes of the signs for the tiles of `Epilogue`.
template <typename Epilogue>
std::int64_t sign_bytes(const MlpShape& shape) {
  const auto grid = make_tile_grid<Epilogue>(shape.rows, shape.hidden, shape.dim);
  return std::int64_t{grid.count()} * kClusterSize * kBlockM * Epilogue::block_n / 8;
}

static_assert(kSubtileAccumulators == 32);
// Returns the index of a thread's uint2 for subtile 0; consecutive subtiles are kWarpgroupThreads
// apart.
template <int subtiles>
__device__ std::int64_t first_sign_index(const TileInfo& tile) {
  return std::int64_t{tile.index} * subtiles * kWarpgroupThreads + threadIdx.x % kWarpgroupThreads;
}
__device__ inline unsigned& sign_word(uint2& signs, int mma) {
  return mma == 0 ? signs.x : signs.y;
}
// Shifts the sign bit of x into `bits` at the low end.
__device__ inline void push_sign(unsigned& bits, float x) {
  bits = __funnelshift_l(__float_as_uint(x), bits, 1);
}
// Shifts a sign bit out of `bits` at the high end.
__device__ inline bool pop_sign(unsigned& bits) {
  const bool negative = static_cast<int>(bits) < 0;
  bits <<= 1;
  return negative;
}

}  // namespace tg::cuda::hopper
