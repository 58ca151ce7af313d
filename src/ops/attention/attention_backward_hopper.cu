// Launches the kernel of attention_backward.cuh between a pass for what it needs of each row and
// one that rounds dQ.
#include <algorithm>

#include "ops/attention/attention_backward.cuh"
#include "ops/attention/head_vectors.cuh"
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda {

namespace {

// A warp takes a token.
template <typename T, int head_dim>
__global__ void __launch_bounds__(kHeadThreads)
    row_stats_kernel(AttentionShape shape, AttentionTensors in, float* logsumexp, float* delta) {
  const HeadLane<T, head_dim / 8> lane;
  const int rows = shape.padded_len, padded_tokens = shape.batch * rows;
  for (int index = grid_warp_index(); index < padded_tokens; index += num_grid_warps()) {
    const int sequence = index / rows, row = index % rows;
    const bool real = row < shape.seq_len;
    const int token = sequence * shape.seq_len + row;
    for (int first = 0; first < shape.heads; first += lane.heads_per_warp) {
      const int head = first + lane.head;
      const bool in_bounds = real && head < shape.heads;
      const float sum =
          warp_sum<head_dim / 8>(dot(load_head<T>(in.out, token, head, lane.offset, in_bounds),
                                     load_head<T>(in.d_out, token, head, lane.offset, in_bounds)));
      if (lane.index != 0 || head >= shape.heads) continue;
      const auto of_head = std::int64_t{sequence} * shape.heads + head;
      delta[of_head * rows + row] = sum;
      // Padding has probabilities of 0.
      logsumexp[of_head * rows + row] =
          real ? attention::kLog2E * in.logsumexp[of_head * shape.seq_len + row] : INFINITY;
    }
  }
}

// 8 channels of a query in a head's part of q_sum. A warp has 16 queries and 64 channels
// (attention::Consumer::start_d_q). Of these, the accumulators 8·p + {0, 1, 4, 5} and 8·p + {2, 3,
// 6, 7} (WgmmaAccumulators) of a lane are floats 4·lane and on of the runs 2·p and 2·p + 1 of 128.
template <int head_dim>
__device__ void load_query_sum(const float* of_head, int row, int pack, float (&x)[8]) {
  const int column = pack / 8, p = pack % 8;
  const int warp = head_dim == 64 ? row / 16 : (row / 64 * 2 + column) * 4 + row % 64 / 16;
  const int lane = row % 8 * 4, run = p / 2 * 2 + row / 8 % 2;
  const float* const at = of_head + warp * attention::kWarpSum + (run * kWarp + lane) * 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = *reinterpret_cast<const float2*>(at + 4 * i + p % 2 * 2);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

template <typename T, int head_dim>
__global__ void __launch_bounds__(kHeadThreads)
    round_q_sum_kernel(AttentionShape shape, const float* q_sum, T* d_q) {
  constexpr int head_packs = head_dim / 8;
  const auto packs = std::int64_t{shape.batch} * shape.seq_len * shape.heads * head_packs;
  for (auto i = std::int64_t{blockIdx.x} * kHeadThreads + threadIdx.x; i < packs;
       i += std::int64_t{gridDim.x} * kHeadThreads) {
    const int pack = static_cast<int>(i % head_packs);
    const int head = static_cast<int>(i / head_packs % shape.heads);
    const auto token = i / head_packs / shape.heads;
    const auto sequence = token / shape.seq_len;
    float x[8];
    load_query_sum<head_dim>(q_sum + (sequence * shape.heads + head) * shape.padded_len * head_dim,
                             static_cast<int>(token % shape.seq_len), pack, x);
    store_rounded(d_q + i * 8, x);
  }
}

// Boxes of `box_tokens` and 64 channels of one head; tokens beyond the sequence are zero.
template <typename T, int head_dim>
CUtensorMap make_heads_map(const HeadVectors& of, const AttentionShape& shape, int heads,
                           cuuint32_t box_tokens) {
  const auto token_bytes = static_cast<cuuint64_t>(of.token_stride) * sizeof(T);
  const auto tokens = static_cast<cuuint64_t>(shape.seq_len);
  return hopper::encode_tensor_map<T, 4>(
      of.data,
      {head_dim, static_cast<cuuint64_t>(heads), tokens, static_cast<cuuint64_t>(shape.batch)},
      {static_cast<cuuint64_t>(of.head_stride) * sizeof(T), token_bytes, token_bytes * tokens},
      {attention::kColumns, 1, box_tokens, 1});
}

template <typename T, int head_dim>
void launch(const AttentionShape& shape, const AttentionTensors& in, const AttentionGradients& out,
            Stream stream) {
  using Storage = attention::Storage<T, head_dim>;
  const int padded_tokens = shape.batch * shape.padded_len;
  float* const delta = out.row_stats + std::int64_t{padded_tokens} * shape.heads;
  row_stats_kernel<T, head_dim>
      <<<blocks_for((padded_tokens + kHeadWarps - 1) / kHeadWarps, 8), kHeadThreads, 0, stream>>>(
          shape, in, out.row_stats, delta);
  check_launch("attention_backward: row_stats");

  const auto map = [&](const HeadVectors& of, int heads, int box_tokens) {
    return make_heads_map<T, head_dim>(of, shape, heads, static_cast<cuuint32_t>(box_tokens));
  };
  const auto contiguous = [&](const void* keys_or_values) {
    return HeadVectors{keys_or_values, std::int64_t{shape.kv_heads} * head_dim, head_dim};
  };
  const attention::Maps maps{.q = map(in.q, shape.heads, Storage::queries),
                             .k = map(in.k, shape.kv_heads, attention::kKeys),
                             .v = map(in.v, shape.kv_heads, attention::kKeys),
                             .d_out = map(in.d_out, shape.heads, Storage::queries),
                             .d_k = map(contiguous(out.k), shape.kv_heads, 16),
                             .d_v = map(contiguous(out.v), shape.kv_heads, 16)};
  const auto kernel = attention::backward_kernel<T, head_dim>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Storage));
  kernel<<<blocks_for(attention::KeyBlocks(shape).count, 1), attention::kThreads, sizeof(Storage),
           stream>>>(maps, shape, {out.row_stats, delta, out.q_sum});
  check_launch("attention_backward");

  const auto packs = std::int64_t{shape.batch} * shape.seq_len * shape.heads * (head_dim / 8);
  round_q_sum_kernel<T, head_dim>
      <<<blocks_for((packs + kHeadThreads - 1) / kHeadThreads, 8), kHeadThreads, 0, stream>>>(
          shape, out.q_sum, static_cast<T*>(out.q));
  check_launch("attention_backward: round_q_sum");
}

}  // namespace

void attention_backward(const AttentionShape& shape, const AttentionTensors& in,
                        const AttentionGradients& out, Dtype dtype, Stream stream) {
  if (shape.batch * shape.seq_len == 0) return;
  dispatch_half(dtype, [&](auto zero) {
    using T = decltype(zero);
    shape.head_dim == 64 ? launch<T, 64>(shape, in, out, stream)
                         : launch<T, 128>(shape, in, out, stream);
  });
}

}  // namespace tg::cuda
