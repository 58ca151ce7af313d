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

// A lane's part of a query: of the 16 channels from 16·(pack / 2) on, accumulators of both packs of
// 8. So that a warp reads whole sectors, lanes load each other's channels and exchange them
// rounded.
template <int head_dim>
struct QuerySum {
  float4 first, second;

  // Loads the part of query `row` of a head; rounded() returns its channels [8·pack, 8·pack + 8).
  __device__ static QuerySum load(const float* head, unsigned row, int pack) {
    static_assert(head_dim == 64 || head_dim == 128);
    const unsigned column = pack / 8,
                   piece = head_dim == 64 ? row / 16 : (row / 64 * 2 + column) * 4 + row % 64 / 16;
    const unsigned run = pack % 8 / 2 * 2 + row / 8 % 2, lane = row % 8 * 4 + pack % 2;
    const auto* const at =
        reinterpret_cast<const float4*>(head + piece * kQuerySumPiece) + run * kWarp + lane;
    return {at[0], at[2]};
  }

  // Its neighbour, the lane of pack ^ 1 of the same query, must call it, too.
  template <typename T>
  __device__ Pack<T> rounded(int pack) const {
    const bool odd = pack % 2 != 0;
    unsigned words[2][2] = {
        {rounded_pair<T>(first.x, first.y), rounded_pair<T>(second.x, second.y)},
        {rounded_pair<T>(first.z, first.w), rounded_pair<T>(second.z, second.w)}};  // [pack][]
    Pack<T> out;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const unsigned own = odd ? words[1][i] : words[0][i],
                     other = __shfl_xor_sync(0xffffffff, odd ? words[0][i] : words[1][i], 1);
      out.words[2 * i] = odd ? other : own;
      out.words[2 * i + 1] = odd ? own : other;
    }
    return out;
  }
};

}  // namespace tg::cuda
