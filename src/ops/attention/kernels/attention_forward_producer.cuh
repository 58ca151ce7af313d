#pragma once
// Parts of attention_forward.cuh's kernel: shared storage, the query tiles and their scheduling,
// and the two producer warps.
#include "ops/attention/kernels/attention_forward_hopper.h"
#include "ops/attention/kernels/attention_tiles.cuh"

namespace tg::cuda::attention {

constexpr int kQueryTile = kAttentionBlock;

template <typename T, int head_dim>
struct ForwardStorage {
  T q[kStages][kQueryTile * head_dim];
  T k[kStages][kKeys * head_dim], v[kStages][kKeys * head_dim];
  int tiles[kStages];  // indices of the query tiles in q
  Barrier q_full[kStages], q_empty[kStages];
  Barrier order[kConsumers];  // order barriers: warpgroup w may issue the GEMMs of a key block
  Barrier k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
};

struct ForwardMaps {
  CUtensorMap q, k, v, y;
};
struct ForwardWork {
  const int* visible_from;
  float* logsumexp;
  int* next_tile;
};

// The query tiles of all heads and sequences: the last of each sequence first, since it sees most
// keys.
struct QueryTile {
  int sequence, head, first_query;
  int key_blocks;  // that its queries see: the diagonal one and those before it
};
struct ForwardTiles {
  const AttentionShape& shape;
  const ForwardWork& work;

  __host__ __device__ int count() const {
    return shape.batch * shape.heads * (shape.padded_len / kQueryTile);
  }
  __device__ QueryTile at(int index) const {
    const int of_heads = index / shape.heads, sequence = of_heads % shape.batch;
    const int first_query = shape.padded_len - (of_heads / shape.batch + 1) * kQueryTile;
    return {sequence, index % shape.heads, first_query,
            key_blocks(first_query, visible_from(sequence, first_query))};
  }
  // Returns the first key that a query sees; queries beyond the sequence see what the last one
  // does.
  __device__ int visible_from(int sequence, int query) const {
    return work.visible_from[sequence * shape.seq_len + min(query, shape.seq_len - 1)];
  }
  // Returns the number of key blocks from a tile's diagonal block down to the block of `first_key`.
  __device__ static int key_blocks(int first_query, int first_key) {
    return first_query / kKeys - first_key / kKeys + 1;
  }
};

// Loads blocks of keys or of values, for a tile's diagonal block and those before it.
template <typename T, int head_dim>
struct BlockLoader {
  T (&to)[kStages][kKeys * head_dim];
  Barrier (&full)[kStages], (&empty)[kStages];
  const CUtensorMap& map;
  int group;      // query heads per KV head
  int block = 0;  // counted over all tiles

  __device__ void load(const QueryTile& tile, int first, int end) {
#pragma unroll 1
    for (int i = first; i < end; ++i, ++block) {
      const int stage = block % kStages;
      mbarrier_wait(empty[stage], block / kStages % 2 ^ 1);
      mbarrier_arrive_expect_tx(full[stage], kKeys * head_dim * sizeof(T));
      load_rows<T, head_dim>(to[stage], kKeys, map, tile.head / group, tile.first_query - i * kKeys,
                             tile.sequence, full[stage]);
    }
  }
};

// Claims tiles and loads their queries and keys.
template <typename T, int head_dim>
__device__ void run_forward_producer(ForwardStorage<T, head_dim>& shared, const ForwardMaps& maps,
                                     const AttentionShape& shape, const ForwardWork& work) {
  const ForwardTiles tiles{shape, work};
  const int count = tiles.count();
  BlockLoader<T, head_dim> keys{shared.k, shared.k_full, shared.k_empty, maps.k,
                                shape.heads / shape.kv_heads};
  int index = blockIdx.x;
  QueryTile tile = tiles.at(index);
#pragma unroll 1
  for (int n = 0;; ++n) {
    // Claimed and looked up one tile ahead, so that nothing waits for it.
    const int next = index < count ? static_cast<int>(gridDim.x) + take_ticket(work.next_tile) : 0;
    const int stage = n % kStages;
    mbarrier_wait(shared.q_empty[stage], n / kStages % 2 ^ 1);
    shared.tiles[stage] = index;
    if (index >= count) {
      mbarrier_arrive(shared.q_full[stage]);
      return;
    }
    mbarrier_arrive_expect_tx(shared.q_full[stage], kQueryTile * head_dim * sizeof(T));
    load_rows<T, head_dim>(shared.q[stage], kQueryTile, maps.q, tile.head, tile.first_query,
                           tile.sequence, shared.q_full[stage]);
    keys.load(tile, 0, 1);
    const QueryTile next_tile = next < count ? tiles.at(next) : QueryTile{};
    keys.load(tile, 1, tile.key_blocks);
    index = next, tile = next_tile;
  }
}

// Loads the values of the claimed tiles, in a warp of its own: values are needed, and their buffers
// are free, later than the keys' buffers.
template <typename T, int head_dim>
__device__ void run_value_producer(ForwardStorage<T, head_dim>& shared, const ForwardMaps& maps,
                                   const AttentionShape& shape, const ForwardWork& work) {
  const ForwardTiles tiles{shape, work};
  BlockLoader<T, head_dim> values{shared.v, shared.v_full, shared.v_empty, maps.v,
                                  shape.heads / shape.kv_heads};
#pragma unroll 1
  for (int n = 0;; ++n) {
    mbarrier_wait(shared.q_full[n % kStages], n / kStages % 2);
    const int index = shared.tiles[n % kStages];
    if (index >= tiles.count()) return;
    const QueryTile tile = tiles.at(index);
    values.load(tile, 0, tile.key_blocks);
  }
}

}  // namespace tg::cuda::attention
