#pragma once
// Parts of attention_backward.cuh's kernel: shared storage, the scheduling of key blocks and query
// tiles, the producer warp, and the warp that writes dQ.
#include <algorithm>

#include "ops/attention/kernels/attention_tiles.cuh"
#include "ops/attention/kernels/query_sum.cuh"

namespace tg::cuda {

namespace attention {

constexpr int kWarpgroupKeys = kKeys / kConsumers;
// Number of unit indices in flight: the producer's current and next unit, and two earlier ones that
// the dQ writer may still process.
constexpr int kUnitRing = 4;
// Elements of a warp's part of a dQ tile (16 queries by 64 channels), and of the tile.
constexpr int kWarpDq = kQuerySumPiece, kTileDq = kWarpDq * kConsumerWarps;

// Queries per tile: as many as fit in registers.
template <int head_dim>
constexpr int kQueries = head_dim == 64 ? 128 : 64;

template <typename T, int head_dim>
struct Storage {
  static constexpr int columns = head_dim / kColumns, queries = kQueries<head_dim>;
  static constexpr int key_tile = kKeys * head_dim, query_tile = queries * head_dim;  // elements

  T k[key_tile], v[key_tile];
  T q[kStages][query_tile], d_out[kStages][query_tile];
  T d_scores[2][queries / kColumns][kKeys * kColumns];  // [keys, queries] in columns of 64 queries
  float d_q[2][kTileDq];
  float logsumexp[kStages][queries], delta[kStages][queries];
  int units[kUnitRing];  // indices of work units, with dynamic scheduling; a ring buffer by
                         // block_index
  Barrier kv_full, kv_empty;
  Barrier order[kConsumers];  // order barriers: warpgroup w may start a tile
  Barrier q_full[kStages], q_empty[kStages];
  Barrier d_out_full[kStages], d_out_empty[kStages];
  Barrier d_scores_full[2], d_scores_empty[2];
  Barrier d_q_full[2], d_q_empty[2];
};

struct Maps {
  CUtensorMap q, k, v, d_out;
  CUtensorMap d_k, d_v;
};
// Workspaces and scheduling. [B, heads, padded_len]: logsumexp, times log2(e), and delta =
// rowsum(dO ∘ O). q_sum: fp32 dQ accumulator, see query_sum.cuh. q_begun: per tile of q_sum,
// whether it is initialized. next_unit: counter of dynamically claimed units; null: static
// scheduling. visible_until: see AttentionTensors.
struct Work {
  float *logsumexp, *delta, *q_sum;
  int *q_begun, *next_unit;
  const int* visible_until;
  int units;  // work units per KV head (KeyBlocks)
};

// Schedules key blocks over CTAs. By default a work unit is a pair of blocks, the last with the
// first and so on: all pairs then have the same number of queries, and units are assigned
// statically. All pairs of a head must be co-resident, since the first block of a pair waits for
// the last blocks of others (QueryTiles). If a head has more pairs than there are CTAs, or if
// documents or a window limit what attends to a key, each block is a unit, the last first; CTAs
// claim units dynamically, since documents make them unequal.
struct KeyBlocks {
  int blocks;        // per sequence
  int units, count;  // work units per KV head, and in total

  __host__ __device__ KeyBlocks(const AttentionShape& shape, int units_per_head)
      : blocks(shape.padded_len / kKeys),
        units(units_per_head),
        count(shape.batch * shape.kv_heads * units) {}

  // `ctas`: number of CTAs that can be co-resident; `limited`: with
  // AttentionTensors::visible_until.
  __host__ static KeyBlocks for_ctas(const AttentionShape& shape, int ctas, bool limited) {
    const int blocks = shape.padded_len / kKeys, pairs = (blocks + 1) / 2;
    return {shape, pairs <= ctas && !limited ? pairs : blocks};
  }
  __host__ __device__ bool paired() const { return units < blocks || blocks == 1; }
  // Returns the grid size.
  __host__ int ctas(int max_ctas) const {
    return std::min(count, units <= max_ctas ? max_ctas / units * units : max_ctas);
  }

  // Calls visit(KV head index over all sequences, block) for this CTA's blocks. With dynamic
  // scheduling, next() returns the next unit.
  template <typename Next, typename Visit>
  __device__ void for_each(bool dynamic, Next next, Visit visit) const {
#pragma unroll 1
    for (int unit = blockIdx.x; unit < count;
         unit = dynamic ? next() : unit + static_cast<int>(gridDim.x)) {
      const int index_in_head = unit % units, last = blocks - 1 - index_in_head;
      const int first = dynamic ? last : index_in_head;
#pragma unroll 1
      for (int block = last;; block = first) {
        visit(unit / units, block);
        if (block == first) break;
      }
    }
  }
};

// The query tiles that a key block processes, in this order: the diagonal tiles (the block's own
// tokens) of all heads of the group, then each head's other tiles, from `later` on first. `later`
// is the later half of the sequence for a pair, else what lies beyond the next block. Diagonal
// tiles initialize dQ: their contributions are stored, and other blocks add only afterwards, so
// that the accumulator needs no zeroing. A block waits only for later blocks, with which each pair
// starts, or which were claimed before: this rules out deadlock. CTAs hardly ever wait, since
// diagonal tiles come first: with one head after the other, single blocks took three times as long.
struct QueryTiles {
  int first, own, later, end;  // own: number of diagonal tiles
  int group;                   // heads

  // `end_tile`: one past the last tile that attends to a key of the block.
  __device__ QueryTiles(const KeyBlocks& blocks, int block, int per_block, int end_tile,
                        int heads_of_group)
      : first(block * per_block),
        own(per_block),
        later(blocks.paired() ? max(first + own, blocks.blocks / 2 * per_block) : first + 2 * own),
        end(end_tile),
        group(heads_of_group) {}
  __device__ int of_head() const { return end - first; }
  __device__ int count() const { return group * of_head(); }

  // A place in the order: a head of the group, and a tile by its rank among the head's tiles.
  struct Place {
    int head = 0, rank = 0;
  };
  __device__ void advance(Place& place) const {
    if (++place.rank == own)  // only where the diagonal tiles of a head end
      place = place.head + 1 < group ? Place{place.head + 1, 0} : Place{0, own};
    if (place.rank == of_head()) place = {place.head + 1, own};
  }
  __device__ bool is_diagonal(const Place& place) const { return place.rank < own; }
  __device__ int tile(const Place& place) const {
    if (is_diagonal(place)) return first + place.rank;
    const int tile = later + place.rank - own;
    return tile < end ? tile : tile - max(later, end) + first + own;
  }
};

// Returns the query position at which the visibility of `key` ends; keys beyond the sequence use
// the last key's.
__device__ inline int visible_until(const AttentionShape& shape, const Work& work, int sequence,
                                    int key) {
  return work.visible_until[sequence * shape.seq_len + min(key, shape.seq_len - 1)];
}

// Returns the query tiles that attend to a key block: up to the end of the sequence or, if
// `limited`, to the end of the last key's visibility.
template <bool limited>
__device__ QueryTiles visible_tiles(const AttentionShape& shape, const Work& work,
                                    const KeyBlocks& blocks, int global_kv_head, int block,
                                    int per_block) {
  int end = blocks.blocks * per_block;
  if constexpr (limited) {
    const int sequence = global_kv_head / shape.kv_heads, next = (block + 1) * kKeys;
    const int queries = kKeys / per_block;
    const int last_limit = visible_until(shape, work, sequence, next - 1);
    end = (max(last_limit, next) + queries - 1) / queries;
  }
  return {blocks, block, per_block, end, shape.heads / shape.kv_heads};
}

template <bool limited, typename T, int head_dim>
__device__ void run_producer(Storage<T, head_dim>& shared, const Maps& maps,
                             const AttentionShape& shape, const Work& work) {
  using Tiles = Storage<T, head_dim>;
  constexpr int queries = Tiles::queries, row_bytes = queries * sizeof(float),
                key_bytes = Tiles::key_tile * sizeof(T),
                query_bytes = Tiles::query_tile * sizeof(T);
  const KeyBlocks blocks(shape, work.units);
  int block_index = 0, tile = 0;
  // Claims the next unit. Consumers read it after q_full of its first query tile; after the last
  // unit, q_full completes without queries.
  const auto claim_unit = [&] {
    const int unit = static_cast<int>(gridDim.x) + take_ticket(work.next_unit);
    shared.units[block_index % kUnitRing] = unit;
    if (unit >= blocks.count) {
      mbarrier_wait(shared.q_empty[tile % kStages], tile / kStages % 2 ^ 1);
      mbarrier_arrive(shared.q_full[tile % kStages]);
    }
    return unit;
  };
  blocks.for_each(work.next_unit != nullptr, claim_unit, [&](int global_kv_head, int block) {
    const int sequence = global_kv_head / shape.kv_heads, kv_head = global_kv_head % shape.kv_heads;
    const auto load_keys = [&] {
      mbarrier_wait(shared.kv_empty, block_index++ % 2 ^ 1);
      mbarrier_arrive_expect_tx(shared.kv_full, 2 * key_bytes);
      const int key = block * kKeys;
      load_rows<T, head_dim>(shared.k, kKeys, maps.k, kv_head, key, sequence, shared.kv_full);
      load_rows<T, head_dim>(shared.v, kKeys, maps.v, kv_head, key, sequence, shared.kv_full);
    };
    const auto tiles =
        visible_tiles<limited>(shape, work, blocks, global_kv_head, block, kKeys / queries);
    QueryTiles::Place place;
#pragma unroll 1
    for (int n = 0; n < tiles.count(); ++n, ++tile, tiles.advance(place)) {
      const int head = kv_head * tiles.group + place.head, row = tiles.tile(place) * queries;
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
      // After the first query tile, whose stage is free before the keys' buffers.
      if (n == 0) load_keys();
    }
  });
}

// Writer warp: accumulates the consumers' dQ tiles in global memory. It stores diagonal tiles and
// signals the other CTAs, and adds to other tiles once they are initialized.
template <bool limited, typename T, int head_dim>
__device__ void run_d_q_writer(Storage<T, head_dim>& shared, const AttentionShape& shape,
                               const Work& work) {
  constexpr int per_block = kKeys / Storage<T, head_dim>::queries;
  const KeyBlocks blocks(shape, work.units);
  const int head_tiles = blocks.blocks * per_block;
  int written = 0, block_index = 0;
  // Reads the unit after d_q_full of its first dQ tile, or of none after the last unit.
  const auto read_unit = [&] {
    mbarrier_wait(shared.d_q_full[written % 2], written / 2 % 2);
    return shared.units[block_index % kUnitRing];
  };
  blocks.for_each(work.next_unit != nullptr, read_unit, [&](int kv_head, int block) {
    ++block_index;
    const auto tiles = visible_tiles<limited>(shape, work, blocks, kv_head, block, per_block);
    QueryTiles::Place place;
#pragma unroll 1
    for (int n = 0; n < tiles.count(); ++n, ++written, tiles.advance(place)) {
      const int head = kv_head * tiles.group + place.head, buffer = written % 2;
      const int tile = head * head_tiles + tiles.tile(place);
      float* const term = shared.d_q[buffer];
      float* const sum = work.q_sum + std::int64_t{tile} * kTileDq;
      mbarrier_wait(shared.d_q_full[buffer], written / 2 % 2);
      if (tiles.is_diagonal(place)) {
        bulk_store(sum, term, kTileDq * sizeof(float));
        bulk_wait();
        signal_count(work.q_begun + tile);
      } else {
        wait_for_count(work.q_begun + tile, 1);
        bulk_add(sum, term, kTileDq * sizeof(float));
        tma_store_wait_read<0>();
      }
      mbarrier_arrive(shared.d_q_empty[buffer]);
    }
  });
  bulk_wait();
}

}  // namespace attention

}  // namespace tg::cuda
