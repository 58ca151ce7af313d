#pragma once
// Of the kernel of attention_backward.cuh: what a CTA has in shared memory, which blocks of keys
// are its own, and the producer, which loads them and the tiles of queries that see them.
#include "ops/attention/query_sum.cuh"
#include "ops/gemm/hopper/ptx.cuh"
#include "ops/gemm/hopper/tile.cuh"

namespace tg::cuda {

namespace attention {

using namespace hopper;

constexpr int kKeys = kAttentionBlock;
constexpr int kConsumers = 2, kWarpgroupKeys = kKeys / kConsumers;
constexpr int kStages = 2;
constexpr int kThreads = (1 + kConsumers) * kWarpgroupThreads;
// Registers per thread: 128·24 + 256·240 of the 64 Ki of an SM.
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
// Elements in 128 bytes: TMA loads columns of as many, and the rows of all operands in shared
// memory are as wide, with the 128-byte swizzle.
constexpr int kColumns = 64;
// A warp's part of a tile of dQ, 16 queries by 64 channels, and its warpgroup's.
constexpr int kWarpSum = kQuerySumPiece, kSum = kWarpSum * kWarpgroupWarps;
// Descriptors count in units of 16 bytes: 16 rows, and 16 elements of a row.
constexpr int kRows16 = 16 * 128 / 16, kElements16 = 2;
constexpr float kLog2E = 1.4426950408889634f;

// Queries at a time: as many as the registers have room for.
template <int head_dim>
constexpr int kQueries = head_dim == 64 ? 128 : 64;

template <typename T, int head_dim>
struct Storage {
  static constexpr int columns = head_dim / kColumns, queries = kQueries<head_dim>;
  static constexpr int key_tile = kKeys * head_dim, query_tile = queries * head_dim;  // elements

  T k[key_tile], v[key_tile];
  T q[kStages][query_tile], d_out[kStages][query_tile];
  T d_scores[2][queries / kColumns][kKeys * kColumns];  // rows are keys
  float d_q[kConsumers][kSum];
  float logsumexp[kStages][queries], delta[kStages][queries];
  Barrier kv_full, kv_empty;
  Barrier q_full[kStages], q_empty[kStages];
  Barrier d_out_full[kStages], d_out_empty[kStages];
  Barrier d_scores_full[2], d_scores_empty[2];
};

struct Maps {
  CUtensorMap q, k, v, d_out;
  CUtensorMap d_k, d_v;
};
// Workspaces: of rows, [B, heads, padded_len]: log2(e)·logsumexp, and delta, the dot products of
// out and d_out. q_sum: see query_sum.cuh.
struct Work {
  const float *logsumexp, *delta;
  float* q_sum;
};

// Blocks of keys come in pairs, the first with the last: then all have the same number of queries.
struct KeyBlocks {
  int kv_heads, blocks, pairs, count;  // blocks of a sequence; pairs of all

  __host__ __device__ explicit KeyBlocks(const AttentionShape& of)
      : kv_heads(of.kv_heads),
        blocks(of.padded_len / kKeys),
        pairs((blocks + 1) / 2),
        count(of.batch * of.kv_heads * pairs) {}

  // visit(sequence, KV head, block) for those of this CTA.
  template <typename Visit>
  __device__ void for_each(Visit visit) const {
#pragma unroll 1
    for (int i = 0;; ++i) {
      const int index = static_cast<int>(blockIdx.x + i / 2 * gridDim.x);
      if (index >= count) break;
      const int head = index / pairs, first = index % pairs, last = blocks - 1 - first;
      if (i % 2 == 0 || last != first)
        visit(head / kv_heads, head % kv_heads, i % 2 == 0 ? first : last);
    }
  }
};

// Rows of a head, from `row` on: a box for each 64 channels.
template <typename T, int head_dim>
__device__ void load_rows(T* to, int box_rows, const CUtensorMap& map, int head, int row,
                          int sequence, Barrier& full) {
#pragma unroll
  for (int column = 0; column < head_dim; column += kColumns)
    tma_load(to + column * box_rows, map, column, head, row, sequence, full);
}

template <typename T, int head_dim>
__device__ void run_producer(Storage<T, head_dim>& shared, const Maps& maps,
                             const AttentionShape& shape, const Work& work) {
  using Tiles = Storage<T, head_dim>;
  constexpr int queries = Tiles::queries, row_bytes = queries * sizeof(float),
                key_bytes = Tiles::key_tile * sizeof(T),
                query_bytes = Tiles::query_tile * sizeof(T);
  const int group = shape.heads / shape.kv_heads;
  int visited = 0, tile = 0;
  KeyBlocks(shape).for_each([&](int sequence, int kv_head, int block) {
    mbarrier_wait(shared.kv_empty, visited++ % 2 ^ 1);
    mbarrier_arrive_expect_tx(shared.kv_full, 2 * key_bytes);
    const int key = block * kKeys;
    load_rows<T, head_dim>(shared.k, kKeys, maps.k, kv_head, key, sequence, shared.kv_full);
    load_rows<T, head_dim>(shared.v, kKeys, maps.v, kv_head, key, sequence, shared.kv_full);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
#pragma unroll 1
      for (int row = key; row < shape.padded_len; row += queries, ++tile) {
        const int stage = tile % kStages, parity = tile / kStages % 2 ^ 1;
        const auto stats = (std::int64_t{sequence} * shape.heads + head) * shape.padded_len + row;
        auto &q_full = shared.q_full[stage], &d_out_full = shared.d_out_full[stage];
        mbarrier_wait(shared.q_empty[stage], parity);
        mbarrier_arrive_expect_tx(q_full, query_bytes + row_bytes);
        load_rows<T, head_dim>(shared.q[stage], queries, maps.q, head, row, sequence, q_full);
        bulk_load(shared.logsumexp[stage], work.logsumexp + stats, row_bytes, q_full);
        mbarrier_wait(shared.d_out_empty[stage], parity);
        mbarrier_arrive_expect_tx(d_out_full, query_bytes + row_bytes);
        load_rows<T, head_dim>(shared.d_out[stage], queries, maps.d_out, head, row, sequence,
                               d_out_full);
        bulk_load(shared.delta[stage], work.delta + stats, row_bytes, d_out_full);
      }
    }
  });
}

}  // namespace attention

}  // namespace tg::cuda
