#pragma once
// Kernel of attention_backward_hopper.h. A CTA processes blocks of 128 keys. A block's dK and dV
// stay in registers while the CTA iterates over all query tiles that attend to it, for every query
// head of the KV head's group. Each of two consumer warpgroups owns 64 keys. Scores are computed
// transposed (Sᵀ = K·Qᵀ, keys by queries), so that P and dS are register operands A of the dV and
// dK GEMMs. For dQ, which sums over all keys, the warpgroups exchange dS through shared memory;
// each computes half of the block's contribution to a dQ tile, which a writer warp adds to global
// memory. dQ of tile i-1 is computed in the step of tile i, so that neither warpgroup waits for the
// other's dS.
#include <cmath>

#include "ops/attention/kernels/attention_backward_producer.cuh"

namespace tg::cuda {

namespace attention {

template <typename T, int head_dim, bool limited>
class Consumer {
 public:
  __device__ Consumer(Storage<T, head_dim>& shared, const Maps& maps, const AttentionShape& shape,
                      const Work& work)
      : shared_(shared),
        maps_(maps),
        shape_(shape),
        work_(work),
        warpgroup_(static_cast<int>(threadIdx.x) / kWarpgroupThreads - 1),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads) {}

  __device__ void run() {
    const KeyBlocks blocks(shape_, work_.units);
    int block_index = 0;
    const bool dynamic = work_.next_unit != nullptr;
    const auto read_unit = [&] {
      mbarrier_wait(shared_.q_full[tile_ % kStages], tile_ / kStages % 2);
      return shared_.units[block_index % kUnitRing];
    };
    blocks.for_each(dynamic, read_unit, [&](int kv_head, int block) {
      const auto tiles =
          visible_tiles<limited>(shape_, work_, blocks, kv_head, block, kKeys / queries);
      if constexpr (limited) load_limits(kv_head / shape_.kv_heads, block * kKeys);
      mbarrier_wait(shared_.kv_full, block_index++ % 2);
      // A flag, so that the first step does not depend on `tiles`, which is computed from loaded
      // limits.
      bool first = true;
      int steps = 0;
      QueryTiles::Place place;
#pragma unroll 1
      do {
        step((tiles.tile(place) - tiles.first) * queries, first);
        first = false;
        tiles.advance(place);
      } while (++steps < tiles.count());
      WgmmaAccumulators<kColumns> d_q;
      issue_d_q(d_q);
      signal_d_q();
      store_d_q(d_q);
      arrive(shared_.kv_empty);
      signal_d_q();
      store_key_gradients(kv_head / shape_.kv_heads, kv_head % shape_.kv_heads, block);
    });
    if (dynamic) {  // signals the end of the work units to the writer, after the last dQ tile
      wait_for_d_q(tile_);
      arrive(shared_.d_q_full[tile_ % 2]);
    }
    if (thread_ % kWarp == 0) bulk_wait();
  }

 private:
  static constexpr int queries = kQueries<head_dim>;
  // Whether 16 rows of a dS tile have room for 16 rows of dK or dV.
  static constexpr bool stages_in_d_scores = queries >= 2 * head_dim;
  using Scores = WgmmaAccumulators<queries>;          // of 64 keys
  using KeyGradient = WgmmaAccumulators<head_dim>;    // of 64 keys
  using QueryGradient = WgmmaAccumulators<kColumns>;  // of 64 queries

  __device__ void arrive(Barrier& barrier) const {
    __syncwarp();
    if (thread_ % kWarp == 0) mbarrier_arrive(barrier);
  }

  // Order barrier: warpgroup 1 starts a tile after warpgroup 0's exponentials of this tile,
  // warpgroup 0 after warpgroup 1's of the previous tile, so that one computes exponentials while
  // the other's GEMMs run on the tensor cores.
  __device__ void wait_for_order() const {
    mbarrier_wait(shared_.order[warpgroup_], tile_ % 2 ^ (warpgroup_ == 0));
  }

  // Processes one query tile, whose first query is `distance` positions after the block's first
  // key. `first`: the block's first tile.
  __device__ void step(int distance, bool first) {
    const int stage = tile_ % kStages, parity = tile_ / kStages % 2;
    unsigned p_words[queries / 4], ds_words[queries / 4];
    {
      Scores p, d_p;
      mbarrier_wait(shared_.q_full[stage], parity);
      wait_for_order();
      issue_scores(p, shared_.k, shared_.q[stage]);
      mbarrier_wait(shared_.d_out_full[stage], parity);
      issue_scores(d_p, shared_.v, shared_.d_out[stage]);
      signal_d_q();

      wgmma_wait<1>();
      p.fence();
      if (distance < kKeys || (limited && distance + queries > block_limit_)) mask(p, distance);
      exponentiate(p, shared_.logsumexp[stage]);
      arrive(shared_.order[1 - warpgroup_]);
      wgmma_wait<0>();
      d_p.fence();
      const float* const delta = shared_.delta[stage] + 2 * (thread_ % 4);
#pragma unroll
      for (int w = 0; w < queries / 4; ++w) {  // two columns of a row per word
        const float2 d = *reinterpret_cast<const float2*>(delta + w / 2 * 8);
        const float *const x = p.values + 2 * w, *const dx = d_p.values + 2 * w;
        p_words[w] = rounded_pair<T>(x[0], x[1]);
        ds_words[w] = rounded_pair<T>(x[0] * (dx[0] - d.x), x[1] * (dx[1] - d.y));
      }
    }
    issue_key_gradient(d_v_, p_words, shared_.d_out[stage], first);
    issue_key_gradient(d_k_, ds_words, shared_.q[stage], first);
    if (first) {
      store_d_scores(ds_words);
      wgmma_wait<0>();
      release(stage);
    } else {
      QueryGradient d_q;
      issue_d_q(d_q);
      store_d_scores(ds_words);
      wgmma_wait<1>();
      release(stage);
      store_d_q(d_q);
    }
    ++tile_;
  }

  // Issues scores [64 keys, queries] = key_rows · query_rowsᵀ.
  __device__ void issue_scores(Scores& scores, const T* key_rows, const T* query_rows) const {
    wgmma_fence();
    const auto a = smem_descriptor(key_rows + warpgroup_ * kWarpgroupKeys * kColumns, 1024, 16);
    const auto b = smem_descriptor(query_rows, 1024, 16);
#pragma unroll
    for (int k = 0; k < head_dim / 16; ++k) {
      const int column = k / 4, offset = k % 4 * kElements16;
      wgmma<T, false>(scores, a + column * kKeys / 16 * kRows16 + offset,
                      b + column * queries / 16 * kRows16 + offset, k > 0);
    }
    wgmma_commit();
  }

  // Loads the query positions, relative to the block's first key, at which visibility ends: for
  // this thread's two key rows, and for the block's first key.
  __device__ void load_limits(int sequence, int first_key) {
    const auto load_limit = [&](int key) {
      return visible_until(shape_, work_, sequence, first_key + key) - first_key;
    };
    block_limit_ = load_limit(0);
    for (int half = 0; half < 2; ++half) row_limits_[half] = load_limit(row() + half * 8);
  }
  // Returns the first of the thread's two accumulator rows.
  __device__ int row() const {
    return warpgroup_ * kWarpgroupKeys + thread_ / kWarp * 16 + thread_ % kWarp / 4;
  }

  __device__ void mask(Scores& scores, int distance) const {
#pragma unroll
    for (int i = 0; i < queries / 2; ++i) {
      const int half = i / 2 % 2, query = distance + 2 * (thread_ % 4) + i / 4 * 8 + i % 2;
      bool hidden = row() + half * 8 > query;
      if constexpr (limited) hidden = hidden || query >= row_limits_[half];
      if (hidden) scores.values[i] = -INFINITY;
    }
  }

  // Computes P = exp(scale·S − logsumexp) in place.
  __device__ void exponentiate(Scores& scores, const float* logsumexp) const {
    const float scale = shape_.scale * kLog2E;
#pragma unroll
    for (int i = 0; i < queries / 8; ++i) {
      const float2 l = *reinterpret_cast<const float2*>(logsumexp + 2 * (thread_ % 4) + 8 * i);
      float* const x = scores.values + 4 * i;
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = fast_exp2(x[e] * scale - (e % 2 ? l.y : l.x));
    }
  }

  // Issues sum += words [64 keys, queries] · rows [queries, head_dim] (sum = ... if `first`).
  __device__ void issue_key_gradient(KeyGradient& sum, const unsigned* words, const T* rows,
                                     bool first) const {
    wgmma_fence();
    const auto b = smem_descriptor(rows, 1024, queries * kColumns * sizeof(T));
#pragma unroll
    for (int k = 0; k < queries / 16; ++k)
      wgmma_of_registers<T>(sum, words + 4 * k, b + k * kRows16, !first || k > 0);
    wgmma_commit();
  }

  __device__ void store_d_scores(const unsigned* words) const {
    const int buffer = tile_ % 2, lane = thread_ % kWarp;
    wait_for_d_scores();
    const int key = warp() * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < queries / 16; ++k) {
      T* const row = shared_.d_scores[buffer][k / 4] + key * kColumns;
      stmatrix_x4(row + ((k % 4 * 2 + lane / 16) ^ (key % 8)) * 8,
                  {words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3]});
    }
  }

  // Waits until this warp may overwrite its rows of this tile's dS buffer: neither the dQ GEMM nor
  // its own TMA stores of dK and dV still read them.
  __device__ void wait_for_d_scores() const {
    if (stages_in_d_scores && thread_ % kWarp == 0) tma_store_wait_read<0>();
    mbarrier_wait(shared_.d_scores_empty[tile_ % 2], tile_ / 2 % 2 ^ 1);
    __syncwarp();
  }

  // Releases the tile's Q and dO stages after its GEMMs, and signals that its dS is stored.
  __device__ void release(int stage) {
    d_v_.fence();
    d_k_.fence();
    // Required before all three arrivals: wgmma reads dS, and TMA overwrites logsumexp and delta.
    fence_proxy_async_shared();
    arrive(shared_.q_empty[stage]);
    arrive(shared_.d_out_empty[stage]);
    arrive(shared_.d_scores_full[tile_ % 2]);
  }

  // Issues dQ of the previous tile: [64 queries, 64 channels] = dS · K. The warpgroups split the
  // tile's 128 queries, or with 64 queries its channels.
  __device__ void issue_d_q(QueryGradient& d_q) const {
    const int buffer = (tile_ - 1) % 2;
    mbarrier_wait(shared_.d_scores_full[buffer], (tile_ - 1) / 2 % 2);
    wgmma_fence();
    constexpr bool splits_queries = queries > kColumns;
    const auto a =
        smem_descriptor(shared_.d_scores[buffer][splits_queries ? warpgroup_ : 0], 1024, 1024);
    const auto b = smem_descriptor(shared_.k + (splits_queries ? 0 : warpgroup_ * kKeys * kColumns),
                                   1024, 1024);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      wgmma<T, true>(d_q, a + k * kRows16, b + k * kRows16, k > 0);
    wgmma_commit();
  }

  // Waits for dQ and stores it, scaled, to shared memory for the writer.
  __device__ void store_d_q(QueryGradient& d_q) {
    const int tile = tile_ - 1, buffer = tile % 2;
    wgmma_wait<0>();
    d_q.fence();
    arrive(shared_.d_scores_empty[buffer]);
    wait_for_d_q(tile);
    auto* const to =
        reinterpret_cast<float4*>(shared_.d_q[buffer] + warp() * kWarpDq) + thread_ % kWarp;
    const float s = shape_.scale;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float* const x = d_q.values + i / 2 * 8 + i % 2 * 2;
      to[i * kWarp] = {s * x[0], s * x[1], s * x[4], s * x[5]};
    }
    staged_ = tile;
  }

  // Waits until this warp may overwrite this tile's dQ buffer: neither the writer nor its own TMA
  // stores of dK and dV still read it.
  __device__ void wait_for_d_q(int tile) const {
    if (!stages_in_d_scores && thread_ % kWarp == 0) tma_store_wait_read<0>();
    mbarrier_wait(shared_.d_q_empty[tile % 2], tile / 2 % 2 ^ 1);
    __syncwarp();
  }

  // Signals the dQ tile that store_d_q() staged. Deferred, so that nothing waits for its smem
  // stores.
  __device__ void signal_d_q() {
    if (staged_ < 0) return;
    fence_proxy_async_shared();
    arrive(shared_.d_q_full[staged_ % 2]);
    staged_ = -1;
  }

  // Stores dK and dV, each warp separately: staged in its rows of the next dS buffer if both fit
  // there, since earlier dQ tiles may still be in flight; else in its rows of the next dQ buffer.
  __device__ void store_key_gradients(int sequence, int kv_head, int block) const {
    const int key = block * kKeys + warp() * 16;
    if constexpr (stages_in_d_scores) {
      auto& buffer = shared_.d_scores[tile_ % 2];
      wait_for_d_scores();
      const int row = warp() * 16 * kColumns;
      store_key_gradient(d_v_, 1, buffer[0] + row, maps_.d_v, key, kv_head, sequence);
      store_key_gradient(d_k_, shape_.scale, buffer[1] + row, maps_.d_k, key, kv_head, sequence);
    } else {
      T* const staged = reinterpret_cast<T*>(shared_.d_q[tile_ % 2] + warp() * kWarpDq);
      wait_for_d_q(tile_);
      store_key_gradient(d_v_, 1, staged, maps_.d_v, key, kv_head, sequence);
      wait_for_d_q(tile_);
      store_key_gradient(d_k_, shape_.scale, staged, maps_.d_k, key, kv_head, sequence);
    }
  }

  __device__ static void store_key_gradient(const KeyGradient& x, float scale, T* staged,
                                            const CUtensorMap& map, int key, int kv_head,
                                            int sequence) {
    store_rows<T, head_dim>(x, {scale, scale}, staged, /*box_rows=*/16, map, kv_head, key,
                            sequence);
  }

  __device__ int warp() const {
    return warpgroup_ * kWarpgroupWarps + thread_ / kWarp;
  }

  Storage<T, head_dim>& shared_;
  const Maps& maps_;
  const AttentionShape& shape_;
  const Work& work_;
  const int warpgroup_, thread_;
  int tile_ = 0;     // index of the query tile, counted over all blocks
  int staged_ = -1;  // tile whose dQ is in shared memory, not yet signaled; -1: none
  int block_limit_ = 0, row_limits_[2] = {};  // load_limits()
  KeyGradient d_k_, d_v_;
};

template <typename T, int head_dim, bool limited>
__global__ void __launch_bounds__(kThreads, 1)
    backward_kernel(const __grid_constant__ Maps maps, const __grid_constant__ AttentionShape shape,
                    const __grid_constant__ Work work) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Storage<T, head_dim>*>(memory);
  if (threadIdx.x == 0) {
    mbarrier_init(shared.kv_full, 1);
    mbarrier_init(shared.kv_empty, kConsumerWarps);
    for (auto& order : shared.order) mbarrier_init(order, kWarpgroupWarps);
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(shared.q_full[s], 1);
      mbarrier_init(shared.q_empty[s], kConsumerWarps);
      mbarrier_init(shared.d_out_full[s], 1);
      mbarrier_init(shared.d_out_empty[s], kConsumerWarps);
    }
    for (int s = 0; s < 2; ++s) {
      mbarrier_init(shared.d_scores_full[s], kConsumerWarps);
      mbarrier_init(shared.d_scores_empty[s], kConsumerWarps);
      mbarrier_init(shared.d_q_full[s], kConsumerWarps);
      mbarrier_init(shared.d_q_empty[s], 1);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dealloc<kProducerRegisters>();
    if (threadIdx.x == 0)
      run_producer<limited>(shared, maps, shape, work);
    else if (threadIdx.x == kWarp)
      run_d_q_writer<limited>(shared, shape, work);
  } else {
    setmaxnreg_alloc<kConsumerRegisters>();
    Consumer<T, head_dim, limited>(shared, maps, shape, work).run();
  }
}

}  // namespace attention

}  // namespace tg::cuda
