#pragma once
// fp32 dQ accumulator (FlashAttention's dq_accum) in the layout of attention_backward.cuh's wgmma
// accumulators: [B, heads, padded_len / 16, head_dim / 64] pieces of 16 queries by 64 channels. For
// heads of 128, each block of 64 queries stores the pieces of its first 64 channels first. A piece
// consists of runs of 128 floats: a lane's accumulators 8·p + {0, 1, 4, 5} and 8·p + {2, 3, 6, 7}
// (hopper::WgmmaAccumulators) are the four floats from 4·lane on in runs 2·p and 2·p + 1.
#include "ops/attention/kernels/attention_backward_hopper.h"
#include "ops/kernels.cuh"

namespace tg::cuda {

constexpr int kQuerySumPiece = 16 * 64;

// Loads channels [8·pack, 8·pack + 8) of query `row` of a head.
template <int head_dim>
__device__ inline void load_query_sum(const float* head, int row, int pack, float (&x)[8]) {
  static_assert(head_dim == 64 || head_dim == 128);
  const int column = pack / 8, p = pack % 8;
  const int piece = head_dim == 64 ? row / 16 : (row / 64 * 2 + column) * 4 + row % 64 / 16;
  const int lane = row % 8 * 4, run = p / 2 * 2 + row / 8 % 2;
  const float* const at = head + piece * kQuerySumPiece + (run * kWarp + lane) * 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = *reinterpret_cast<const float2*>(at + 4 * i + p % 2 * 2);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

}  // namespace tg::cuda
