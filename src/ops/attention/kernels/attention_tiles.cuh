#pragma once
// Tiles of heads in shared memory, for the attention kernels: blocks of 128 rows, in TMA boxes of
// 64 channels with the 128-byte swizzle.
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/gemm/hopper/gemm_launch.cuh"
#include "ops/gemm/hopper/ptx.cuh"
#include "ops/gemm/hopper/tile.cuh"

namespace tg::cuda::attention {

using namespace hopper;

constexpr int kKeys = kAttentionBlock;
constexpr int kConsumers = 2, kStages = 2;  // consumer warpgroups
constexpr int kThreads = (1 + kConsumers) * kWarpgroupThreads;
constexpr int kConsumerWarps = kConsumers * kWarpgroupWarps;
// Registers per thread: 128·24 + 256·240 of the 64 Ki of an SM.
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
// Elements in 128 bytes: the width of TMA boxes, and of the rows of all smem operands, with the
// 128-byte swizzle.
constexpr int kColumns = 64;
// Descriptor offsets, in units of 16 bytes, of 16 rows and of 16 elements of a row.
constexpr int kRows16 = 16 * 128 / 16, kElements16 = 2;
constexpr float kLog2E = 1.4426950408889634f;

// Calls op(T{}, head_dim) with the element type and a std::integral_constant.
template <typename Op>
void dispatch_heads(const AttentionShape& shape, Dtype dtype, Op op) {
  dispatch_half(dtype, [&](auto zero) {
    if (shape.head_dim == 64) return op(zero, std::integral_constant<int, 64>{});
    op(zero, std::integral_constant<int, 128>{});
  });
}

// Makes a tensor map with boxes of `box_tokens` tokens and 64 channels of one head; tokens beyond
// the sequence read as zeros and are not stored.
template <typename T, int head_dim>
CUtensorMap make_heads_map(const HeadVectors& heads_view, const AttentionShape& shape, int heads,
                           int box_tokens) {
  const auto token_bytes = static_cast<cuuint64_t>(heads_view.token_stride) * sizeof(T);
  const auto tokens = static_cast<cuuint64_t>(shape.seq_len);
  return encode_tensor_map<T, 4>(
      heads_view.data,
      {head_dim, static_cast<cuuint64_t>(heads), tokens, static_cast<cuuint64_t>(shape.batch)},
      {static_cast<cuuint64_t>(heads_view.head_stride) * sizeof(T), token_bytes,
       token_bytes * tokens},
      {kColumns, 1, static_cast<cuuint32_t>(box_tokens), 1});
}

// Loads rows of a head from `row` on, one TMA box per 64 channels.
template <typename T, int head_dim>
__device__ void load_rows(T* to, int box_rows, const CUtensorMap& map, int head, int row,
                          int sequence, Barrier& full) {
#pragma unroll
  for (int column = 0; column < head_dim; column += kColumns)
    tma_load(to + column * box_rows, map, column, head, row, sequence, full);
}

// Stores a warp's 16 rows of a head from `row` on, rounded: by stmatrix to `staged`, whose boxes of
// 64 channels are box_rows apart, and from there by TMA. `scale`: factors of the thread's two rows.
template <typename T, int head_dim>
__device__ void store_rows(const WgmmaAccumulators<head_dim>& x, const float (&scale)[2], T* staged,
                           int box_rows, const CUtensorMap& map, int head, int row, int sequence) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < head_dim / 16; ++i) {
    const float* const from = x.values + 8 * i;
    unsigned words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w)
      words[w] = rounded_pair<T>(scale[w % 2] * from[2 * w], scale[w % 2] * from[2 * w + 1]);
    T* const to = staged + (i / 4 * box_rows + lane % 16) * kColumns;
    stmatrix_x4(to + ((i % 4 * 2 + lane / 16) ^ (lane % 8)) * 8, words);
  }
  fence_proxy_async_shared();
  __syncwarp();
  if (lane != 0) return;
#pragma unroll
  for (int column = 0; column < head_dim; column += kColumns)
    tma_store(map, column, head, row, sequence, staged + column * box_rows);
}

}  // namespace tg::cuda::attention
