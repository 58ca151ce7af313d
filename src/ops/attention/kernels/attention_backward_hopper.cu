// Launches attention_backward.cuh's kernel, preceded by a pass that computes row statistics and
// followed by one that rounds dQ.
#include "ops/attention/kernels/attention_backward.cuh"
#include "ops/attention/kernels/head_vectors.cuh"
#include "ops/attention/kernels/query_sum.cuh"

namespace tg::cuda {

namespace {

// Returns a token's rowsum(dO ∘ O) from its partial sums.
__device__ float sum_partial_dots(const AttentionTensors& in, std::int64_t tokens, int token,
                                  int head) {
  float sum = 0;
  for (int part = 0; part < in.parts; ++part)
    sum += in.delta_parts[(head * in.parts + part) * tokens + token];
  return sum;
}

// Computes log2(e)·logsumexp and delta, padded, and resets q_begun and next_unit. A warp processes
// 8 rows of as many heads as fit in its lanes. Without in.out and in.delta_parts, delta is already
// written, except its padding.
template <typename T, int head_dim>
__global__ void __launch_bounds__(kHeadThreads)
    row_stats_kernel(AttentionShape shape, AttentionTensors in, attention::Work out) {
  constexpr int lanes = head_dim / 8, kRows = 8;
  const HeadLane<T, lanes> lane;
  const int groups = (shape.heads + lane.heads_per_warp - 1) / lane.heads_per_warp;
  const int row_items = shape.padded_len / kRows;
  const int items = shape.batch * row_items * groups;
  if (blockIdx.x == 0 && threadIdx.x == 0 && out.next_unit != nullptr) *out.next_unit = 0;
  for (int item = grid_warp_index(); item < items; item += num_grid_warps()) {
    const int head = item % groups * lane.heads_per_warp + lane.head;
    const int sequence = item / groups / row_items, first = item / groups % row_items * kRows;
    float lane_delta = 0;  // delta of row `lane.index`
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (in.out.data == nullptr) break;
      const bool in_bounds = first + i < shape.seq_len && head < shape.heads;
      const int token = sequence * shape.seq_len + first + i;
      const float sum =
          warp_sum<lanes>(dot(load_head<T>(in.out, token, head, lane.offset, in_bounds),
                              load_head<T>(in.d_out, token, head, lane.offset, in_bounds)));
      if (lane.index == i) lane_delta = sum;
    }
    if (lane.index >= kRows || head >= shape.heads) continue;
    const int row = first + lane.index;
    const auto head_index = std::int64_t{sequence} * shape.heads + head;
    if (in.delta_parts != nullptr && row < shape.seq_len)
      lane_delta = sum_partial_dots(in, std::int64_t{shape.batch} * shape.seq_len,
                                    sequence * shape.seq_len + row, head);
    if (in.out.data != nullptr || in.delta_parts != nullptr || row >= shape.seq_len)
      out.delta[head_index * shape.padded_len + row] = lane_delta;
    // Padding has probability 0.
    out.logsumexp[head_index * shape.padded_len + row] =
        row < shape.seq_len ? attention::kLog2E * in.logsumexp[head_index * shape.seq_len + row]
                            : INFINITY;
    constexpr int tile = attention::kQueries<head_dim>;
    if (row % tile == 0) out.q_begun[(head_index * shape.padded_len + row) / tile] = 0;
  }
}

template <typename T, int head_dim>
__global__ void __launch_bounds__(kHeadThreads)
    round_q_sum_kernel(AttentionShape shape, const float* q_sum, T* d_q) {
  constexpr int head_packs = head_dim / 8;
  const int packs = shape.batch * shape.seq_len * shape.heads * head_packs;
  // Whole warps loop, since lanes exchange channels.
  for (int first = grid_warp_index() * kWarp; first < packs; first += num_grid_warps() * kWarp) {
    const int i = first + static_cast<int>(threadIdx.x % kWarp), pack = i % head_packs;
    const int head = i / head_packs % shape.heads, token = i / head_packs / shape.heads;
    const auto head_index = std::int64_t{token / shape.seq_len} * shape.heads + head;
    QuerySum<head_dim> sum{};
    if (i < packs)
      sum = QuerySum<head_dim>::load(q_sum + head_index * shape.padded_len * head_dim,
                                     static_cast<unsigned>(token % shape.seq_len), pack);
    const auto rounded = sum.template rounded<T>(pack);
    if (i < packs) store_pack(d_q + std::int64_t{i} * 8, rounded);
  }
}

template <typename T, int head_dim>
void launch(const AttentionShape& shape, const AttentionTensors& in, const AttentionGradients& out,
            Stream stream) {
  using Storage = attention::Storage<T, head_dim>;
  const int padded_tokens = shape.batch * shape.padded_len;
  const int max_ctas = blocks_for(INT32_MAX, 1);
  const auto blocks = attention::KeyBlocks::for_ctas(shape, max_ctas, in.visible_until != nullptr);
  const attention::Work work{.logsumexp = out.row_stats,
                             .delta = out.row_stats + std::int64_t{padded_tokens} * shape.heads,
                             .q_sum = out.q_sum,
                             .q_begun = out.q_begun,
                             .next_unit = blocks.paired() ? nullptr : out.next_unit,
                             .visible_until = in.visible_until,
                             .units = blocks.units};
  row_stats_kernel<T, head_dim>
      <<<blocks_for((std::int64_t{padded_tokens} * shape.heads / 8 + kHeadWarps - 1) / kHeadWarps,
                    8),
         kHeadThreads, 0, stream>>>(shape, in, work);
  check_launch("attention_backward: row_stats");

  const auto map = [&](const HeadVectors& heads_view, int heads, int box_tokens) {
    return attention::make_heads_map<T, head_dim>(heads_view, shape, heads, box_tokens);
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
  const auto kernel = in.visible_until == nullptr ? attention::backward_kernel<T, head_dim, false>
                                                  : attention::backward_kernel<T, head_dim, true>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Storage));
  // Cooperative, since CTAs wait for each other: all are co-resident, one per SM.
  hopper::launch_cooperative(kernel, blocks.ctas(max_ctas), attention::kThreads, sizeof(Storage),
                             stream, maps, shape, work);
  check_launch("attention_backward");

  if (out.q == nullptr) return;
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
  attention::dispatch_heads(shape, dtype, [&](auto zero, auto head_dim) {
    launch<decltype(zero), head_dim()>(shape, in, out, stream);
  });
}

}  // namespace tg::cuda
