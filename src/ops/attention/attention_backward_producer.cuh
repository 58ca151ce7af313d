#pragma once
// Parts of the kernel of attention_backward.cuh: the shared memory of a CTA, its blocks of keys,
// the order of the tiles of queries that see them, the producer, which loads both, and the writer
// of dQ's sums.
#include <algorithm>

#include "ops/attention/query_sum.cuh"
#include "ops/gemm/hopper/ptx.cuh"
#include "ops/gemm/hopper/tile.cuh"

namespace tg::cuda {

namespace attention {

using namespace hopper;

constexpr int kKeys = kAttentionBlock;
constexpr int kConsumers = 2, kWarpgroupKeys = kKeys / kConsumers;
constexpr int kStages = 2;
// Units that are known at a time: the producer's, its next one, and two before, where the writer of
// dQ's sums may still be.
constexpr int kUnitRing = 4;
constexpr int kThreads = (1 + kConsumers) * kWarpgroupThreads;
// Registers per thread: 128·24 + 256·240 of the 64 Ki of an SM.
constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
// Elements in 128 bytes: TMA loads columns of as many, and the rows of all operands in shared
// memory are as wide, with the 128-byte swizzle.
constexpr int kColumns = 64;
// A warp's part of a tile of dQ, 16 queries by 64 channels, and the tile.
constexpr int kConsumerWarps = kConsumers * kWarpgroupWarps;
constexpr int kWarpSum = kQuerySumPiece, kSum = kWarpSum * kConsumerWarps;
// Descriptors count in units of 16 bytes: 16 rows, and 16 elements of a row.
constexpr int kRows16 = 16 * 128 / 16, kElements16 = 2;
constexpr float kLog2E = 1.4426950408889634f;

// Queries of a tile: as many as fit in the registers.
template <int head_dim>
constexpr int kQueries = head_dim == 64 ? 128 : 64;

template <typename T, int head_dim>
struct Storage {
  static constexpr int columns = head_dim / kColumns, queries = kQueries<head_dim>;
  static constexpr int key_tile = kKeys * head_dim, query_tile = queries * head_dim;  // elements

  T k[key_tile], v[key_tile];
  T q[kStages][query_tile], d_out[kStages][query_tile];
  T d_scores[2][queries / kColumns][kKeys * kColumns];  // rows are keys
  float d_q[2][kSum];
  float logsumexp[kStages][queries], delta[kStages][queries];
  int units[kUnitRing];  // by number of visit, where they are taken
  Barrier kv_full, kv_empty;
  Barrier turn[kConsumers];  // of a warpgroup to begin a tile
  Barrier q_full[kStages], q_empty[kStages];
  Barrier d_out_full[kStages], d_out_empty[kStages];
  Barrier d_scores_full[2], d_scores_empty[2];
  Barrier d_q_full[2], d_q_empty[2];
};

struct Maps {
  CUtensorMap q, k, v, d_out;
  CUtensorMap d_k, d_v;
};
// Workspaces. Rows [B, heads, padded_len]: log2(e)·logsumexp, and delta, rowsum(dO ∘ O). q_sum: see
// query_sum.cuh. q_begun: whether each of its tiles has its first term. next_unit: number of units
// taken; null: units are dealt. visible_until: as in AttentionTensors.
struct Work {
  float *logsumexp, *delta, *q_sum;
  int *q_begun, *next_unit;
  const int* visible_until;
  int units;  // of a head (KeyBlocks)
};

// Which blocks of keys a CTA has. Blocks come in pairs, the last with the first: then all have the
// same number of queries, and they are dealt. All pairs of a head must run at once, since the first
// block of one waits for the last blocks of others (QueryTiles). Where there are more pairs than
// CTAs, each block is a unit of its own; CTAs take these one by one, since documents make them
// unequal, and do not wait for each other: dQ's sums are zeros then, to which all blocks add.
struct KeyBlocks {
  int blocks;        // of a sequence
  int units, count;  // of a head, of all

  __host__ __device__ KeyBlocks(const AttentionShape& of, int units_of_head)
      : blocks(of.padded_len / kKeys),
        units(units_of_head),
        count(of.batch * of.kv_heads * units) {}

  // Where so many CTAs can run at once.
  __host__ static KeyBlocks for_ctas(const AttentionShape& of, int ctas) {
    const int blocks = of.padded_len / kKeys, pairs = (blocks + 1) / 2;
    return {of, pairs <= ctas ? pairs : blocks};
  }
  __host__ __device__ bool paired() const { return units < blocks || blocks == 1; }
  // Returns the CTAs of the launch.
  __host__ int ctas(int most) const {
    return std::min(count, units <= most ? most / units * units : most);
  }

  // Calls visit(KV head, counted over all sequences, block) for this CTA's units. If units are
  // taken, next() returns the next one.
  template <typename Next, typename Visit>
  __device__ void for_each(bool taken, Next next, Visit visit) const {
#pragma unroll 1
    for (int unit = blockIdx.x; unit < count;
         unit = taken ? next() : unit + static_cast<int>(gridDim.x)) {
      const int of_head = unit % units, last = blocks - 1 - of_head;
      const int first = taken ? last : of_head;
#pragma unroll 1
      for (int block = last;; block = first) {
        visit(unit / units, block);
        if (block == first) break;
      }
    }
  }
};

// Tiles of queries in the order in which a block of keys processes them: the block's own tokens,
// then the later half of the sequence, then the ones between. A sum of dQ begins with the block's
// own tokens: these terms are stored, and no other block adds to them before, so that dQ's sums
// need no zeros. A block waits for later blocks alone, with which the pairs begin: every wait ends,
// and a CTA hardly ever waits.
struct QueryTiles {
  int first, own, later, end;  // own: how many are of the block's tokens

  // `end`: the tile behind the last that sees a key of the block.
  __device__ QueryTiles(const KeyBlocks& blocks, int block, int per_block, int end_of_block)
      : first(block * per_block),
        own(per_block),
        later(max(first + own, blocks.blocks / 2 * per_block)),
        end(end_of_block) {}
  __device__ int count() const { return end - first; }
  __device__ int nth(int n) const {
    if (n < own) return first + n;
    const int tile = later + n - own;
    return tile < end ? tile : tile - max(later, end) + first + own;
  }
};

// Before which query of its row a key is seen; of one behind the row's end as of its last.
__device__ inline int visible_until(const AttentionShape& shape, const Work& work, int sequence,
                                    int key) {
  return work.visible_until[sequence * shape.seq_len + min(key, shape.seq_len - 1)];
}

// The tiles of queries that see a block of keys: to the end of the row, or as far as the block's
// last key is seen (`limited`).
template <bool limited>
__device__ QueryTiles tiles_that_see(const AttentionShape& shape, const Work& work,
                                     const KeyBlocks& blocks, int kv_head_of_all, int block,
                                     int per_block) {
  int end = blocks.blocks * per_block;
  if constexpr (limited) {
    const int sequence = kv_head_of_all / shape.kv_heads, next = (block + 1) * kKeys;
    const int queries = kKeys / per_block;
    const int of_last = visible_until(shape, work, sequence, next - 1);
    end = (max(of_last, next) + queries - 1) / queries;
  }
  return {blocks, block, per_block, end};
}

// Rows of a head, from `row` on: a box for each 64 channels.
template <typename T, int head_dim>
__device__ void load_rows(T* to, int box_rows, const CUtensorMap& map, int head, int row,
                          int sequence, Barrier& full) {
#pragma unroll
  for (int column = 0; column < head_dim; column += kColumns)
    tma_load(to + column * box_rows, map, column, head, row, sequence, full);
}

template <bool limited, typename T, int head_dim>
__device__ void run_producer(Storage<T, head_dim>& shared, const Maps& maps,
                             const AttentionShape& shape, const Work& work) {
  using Tiles = Storage<T, head_dim>;
  constexpr int queries = Tiles::queries, row_bytes = queries * sizeof(float),
                key_bytes = Tiles::key_tile * sizeof(T),
                query_bytes = Tiles::query_tile * sizeof(T);
  const int group = shape.heads / shape.kv_heads;
  const KeyBlocks blocks(shape, work.units);
  int visited = 0, tile = 0;
  // Read by the consumers once q_full says that its first queries are there; behind the last unit
  // are none.
  const auto take_unit = [&] {
    const int unit = static_cast<int>(gridDim.x) + take_ticket(work.next_unit);
    shared.units[visited % kUnitRing] = unit;
    if (unit >= blocks.count) {
      mbarrier_wait(shared.q_empty[tile % kStages], tile / kStages % 2 ^ 1);
      mbarrier_arrive(shared.q_full[tile % kStages]);
    }
    return unit;
  };
  blocks.for_each(work.next_unit != nullptr, take_unit, [&](int kv_head_of_all, int block) {
    const int sequence = kv_head_of_all / shape.kv_heads, kv_head = kv_head_of_all % shape.kv_heads;
    const auto load_keys = [&] {
      mbarrier_wait(shared.kv_empty, visited++ % 2 ^ 1);
      mbarrier_arrive_expect_tx(shared.kv_full, 2 * key_bytes);
      const int key = block * kKeys;
      load_rows<T, head_dim>(shared.k, kKeys, maps.k, kv_head, key, sequence, shared.kv_full);
      load_rows<T, head_dim>(shared.v, kKeys, maps.v, kv_head, key, sequence, shared.kv_full);
    };
    const auto tiles =
        tiles_that_see<limited>(shape, work, blocks, kv_head_of_all, block, kKeys / queries);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
#pragma unroll 1
      for (int n = 0; n < tiles.count(); ++n, ++tile) {
        const int row = tiles.nth(n) * queries;
        const int stage = tile % kStages, parity = tile / kStages % 2 ^ 1;
        const int stats = (sequence * shape.heads + head) * shape.padded_len + row;
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
        // The memory of the first queries is free before the keys'.
        if (n == 0 && head == kv_head * group) load_keys();
      }
    }
  });
}

// Adds the consumers' terms of dQ to its sums in global memory: stores the first terms, of a
// block's own queries, and signals the other CTAs; adds other terms once the sums are begun; adds
// all terms if units are taken.
template <bool limited, typename T, int head_dim>
__device__ void run_sum_writer(Storage<T, head_dim>& shared, const AttentionShape& shape,
                               const Work& work) {
  constexpr int per_block = kKeys / Storage<T, head_dim>::queries;
  const int group = shape.heads / shape.kv_heads;
  const KeyBlocks blocks(shape, work.units);
  const int head_tiles = blocks.blocks * per_block;
  int written = 0, visited = 0;
  const bool taken = work.next_unit != nullptr;
  // With the unit's first term, or without one behind the last unit.
  const auto read_unit = [&] {
    mbarrier_wait(shared.d_q_full[written % 2], written / 2 % 2);
    return shared.units[visited % kUnitRing];
  };
  blocks.for_each(taken, read_unit, [&](int kv_head, int block) {
    ++visited;
    const auto tiles = tiles_that_see<limited>(shape, work, blocks, kv_head, block, per_block);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
#pragma unroll 1
      for (int n = 0; n < tiles.count(); ++n, ++written) {
        const int buffer = written % 2, tile = head * head_tiles + tiles.nth(n);
        float *const term = shared.d_q[buffer], *const sum = work.q_sum + std::int64_t{tile} * kSum;
        mbarrier_wait(shared.d_q_full[buffer], written / 2 % 2);
        if (n < tiles.own && !taken) {
          bulk_store(sum, term, kSum * sizeof(float));
          bulk_wait();
          signal_count(work.q_begun + tile);
        } else {
          if (!taken) wait_for_count(work.q_begun + tile, 1);
          bulk_add(sum, term, kSum * sizeof(float));
          tma_store_wait_read<0>();
        }
        mbarrier_arrive(shared.d_q_empty[buffer]);
      }
    }
  });
  bulk_wait();
}

}  // namespace attention

}  // namespace tg::cuda
