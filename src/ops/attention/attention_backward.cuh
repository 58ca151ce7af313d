#pragma once
// The kernel of attention_backward_hopper.h. A CTA owns blocks of 128 keys, whose gradients stay in
// registers while the tiles of all queries that see them are processed, for each query head of the
// keys' head in turn. Each of two consumer warpgroups has 64 keys. Scores are computed transposed,
// keys by queries, so that the probabilities and their gradients are, in registers, operand A of
// the GEMMs for dV and dK. dQ sums over all keys: the warpgroups exchange the gradients of the
// scores in shared memory, and each stores half of the block's term, which a warp of its own copies
// to global memory. dQ of tile i − 1 overlaps S and dP of tile i.
#include <cmath>

#include "ops/attention/attention_backward_producer.cuh"

namespace tg::cuda {

namespace attention {

__device__ inline float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

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
    const int group = shape_.heads / shape_.kv_heads;
    int visited = 0;
    const bool taken = work_.next_unit != nullptr;
    const auto read_unit = [&] {
      mbarrier_wait(shared_.q_full[tile_ % kStages], tile_ / kStages % 2);
      return shared_.units[visited % kUnitRing];
    };
    blocks.for_each(taken, read_unit, [&](int kv_head, int block) {
      const auto tiles =
          tiles_that_see<limited>(shape_, work_, blocks, kv_head, block, kKeys / queries);
      if constexpr (limited) find_limits(kv_head / shape_.kv_heads, block * kKeys);
      mbarrier_wait(shared_.kv_full, visited++ % 2);
      // The first step does not wait for `tiles`, which is read from memory.
      bool first = true;
      int steps = 0, n = 0;
#pragma unroll 1
      do {
        step((tiles.nth(n) - tiles.first) * queries, first);
        first = false;
        if (++n == tiles.count()) n = 0;
      } while (++steps < group * tiles.count());
      WgmmaAccumulators<kColumns> d_q;
      start_d_q(d_q);
      hand_over_d_q();
      end_d_q(d_q);
      arrive(shared_.kv_empty);
      hand_over_d_q();
      store_key_gradients(kv_head / shape_.kv_heads, kv_head % shape_.kv_heads, block);
    });
    if (taken) {  // there are no more units, for the writer, which has all terms of the tile before
      wait_for_d_q(tile_);
      arrive(shared_.d_q_full[tile_ % 2]);
    }
    if (thread_ % kWarp == 0) bulk_wait();
  }

 private:
  static constexpr int queries = kQueries<head_dim>;
  // Whether 16 rows of a tile's scores' gradients can hold 16 keys' gradients.
  static constexpr bool stages_in_d_scores = queries >= 2 * head_dim;
  using Scores = WgmmaAccumulators<queries>;          // of 64 keys
  using KeyGradient = WgmmaAccumulators<head_dim>;    // of 64 keys
  using QueryGradient = WgmmaAccumulators<kColumns>;  // of 64 queries

  __device__ void arrive(Barrier& barrier) const {
    __syncwarp();
    if (thread_ % kWarp == 0) mbarrier_arrive(barrier);
  }

  // A warpgroup begins a tile when the other has its exponentials: the second waits for the first's
  // of this tile, the first for the second's of the tile before. So one computes exponentials while
  // the other's GEMMs are on the tensor cores.
  __device__ void wait_for_turn() const {
    mbarrier_wait(shared_.turn[warpgroup_], tile_ % 2 ^ (warpgroup_ == 0));
  }

  // One tile of queries, the first of them `distance` after the block's first key. `first`: none
  // came before with this block.
  __device__ void step(int distance, bool first) {
    const int stage = tile_ % kStages, parity = tile_ / kStages % 2;
    unsigned p_words[queries / 4], ds_words[queries / 4];
    {
      Scores p, d_p;
      mbarrier_wait(shared_.q_full[stage], parity);
      wait_for_turn();
      start_scores(p, shared_.k, shared_.q[stage]);
      mbarrier_wait(shared_.d_out_full[stage], parity);
      start_scores(d_p, shared_.v, shared_.d_out[stage]);
      hand_over_d_q();

      wgmma_wait<1>();
      p.fence();
      if (distance < kKeys || (limited && distance + queries > block_limit_)) mask(p, distance);
      exponentiate(p, shared_.logsumexp[stage]);
      arrive(shared_.turn[1 - warpgroup_]);
      wgmma_wait<0>();
      d_p.fence();
      const float* const delta = shared_.delta[stage] + 2 * (thread_ % 4);
#pragma unroll
      for (int w = 0; w < queries / 4; ++w) {  // two columns of a row each
        const float2 d = *reinterpret_cast<const float2*>(delta + w / 2 * 8);
        const float *const x = p.values + 2 * w, *const dx = d_p.values + 2 * w;
        p_words[w] = rounded_pair<T>(x[0], x[1]);
        ds_words[w] = rounded_pair<T>(x[0] * (dx[0] - d.x), x[1] * (dx[1] - d.y));
      }
    }
    start_key_gradient(d_v_, p_words, shared_.d_out[stage], first);
    start_key_gradient(d_k_, ds_words, shared_.q[stage], first);
    if (first) {
      store_d_scores(ds_words);
      wgmma_wait<0>();
      release(stage);
    } else {
      QueryGradient d_q;
      start_d_q(d_q);
      store_d_scores(ds_words);
      wgmma_wait<1>();
      release(stage);
      end_d_q(d_q);
    }
    ++tile_;
  }

  // [64 keys, queries] = rows of `keys` times `queries` transposed.
  __device__ void start_scores(Scores& scores, const T* key_rows, const T* query_rows) const {
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

  // Finds the queries, counted from the block's first key, before which keys are visible: for this
  // thread's two rows, and for the block's first row.
  __device__ void find_limits(int sequence, int first_key) {
    const auto limit_of = [&](int key) {
      return visible_until(shape_, work_, sequence, first_key + key) - first_key;
    };
    block_limit_ = limit_of(0);
    for (int half = 0; half < 2; ++half) row_limits_[half] = limit_of(row() + half * 8);
  }
  // Returns the first of the thread's two rows of the accumulators.
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

  // Scores become probabilities.
  __device__ void exponentiate(Scores& scores, const float* logsumexp) const {
    const float scale = shape_.scale * kLog2E;
#pragma unroll
    for (int i = 0; i < queries / 8; ++i) {
      const float2 l = *reinterpret_cast<const float2*>(logsumexp + 2 * (thread_ % 4) + 8 * i);
      float* const x = scores.values + 4 * i;
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = exp2_approx(x[e] * scale - (e % 2 ? l.y : l.x));
    }
  }

  // sum += words [64 keys, queries] times `rows` [queries, head_dim].
  __device__ void start_key_gradient(KeyGradient& sum, const unsigned* words, const T* rows,
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

  // Waits until this warp may write to its rows of this tile's scores' gradients: the GEMMs for dQ
  // no longer read them, nor do its own stores of keys' gradients.
  __device__ void wait_for_d_scores() const {
    if (stages_in_d_scores && thread_ % kWarp == 0) tma_store_wait_read<0>();
    mbarrier_wait(shared_.d_scores_empty[tile_ % 2], tile_ / 2 % 2 ^ 1);
    __syncwarp();
  }

  // Signals that the GEMMs with this tile of queries are done, and the gradients of its scores are
  // stored.
  __device__ void release(int stage) {
    d_v_.fence();
    d_k_.fence();
    // Before all three: wgmma reads the scores' gradients, TMA writes over the rows' numbers.
    fence_proxy_async_shared();
    arrive(shared_.q_empty[stage]);
    arrive(shared_.d_out_empty[stage]);
    arrive(shared_.d_scores_full[tile_ % 2]);
  }

  // Starts the GEMM for dQ of the tile before: [64 queries, 64 channels] = its scores' gradients,
  // transposed, times the keys. With two columns of queries a warpgroup computes one of them, else
  // one column of channels.
  __device__ void start_d_q(QueryGradient& d_q) const {
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

  // Into shared memory, for the writer of the sums.
  __device__ void end_d_q(QueryGradient& d_q) {
    const int done = tile_ - 1, buffer = done % 2;
    wgmma_wait<0>();
    d_q.fence();
    arrive(shared_.d_scores_empty[buffer]);
    wait_for_d_q(done);
    auto* const to =
        reinterpret_cast<float4*>(shared_.d_q[buffer] + warp() * kWarpSum) + thread_ % kWarp;
    const float s = shape_.scale;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float* const x = d_q.values + i / 2 * 8 + i % 2 * 2;
      to[i * kWarp] = {s * x[0], s * x[1], s * x[4], s * x[5]};
    }
    staged_ = done;
  }

  // Until this warp may write to d_q's buffer of this tile: neither the writer nor its own stores
  // of keys' gradients read it any more.
  __device__ void wait_for_d_q(int tile) const {
    if (!stages_in_d_scores && thread_ % kWarp == 0) tma_store_wait_read<0>();
    mbarrier_wait(shared_.d_q_empty[tile % 2], tile / 2 % 2 ^ 1);
    __syncwarp();
  }

  // What end_d_q left in shared memory, later, so that nothing waits for its stores.
  __device__ void hand_over_d_q() {
    if (staged_ < 0) return;
    fence_proxy_async_shared();
    arrive(shared_.d_q_full[staged_ % 2]);
    staged_ = -1;
  }

  // Stores each warp's keys' gradients through its next rows of the scores' gradients, if both fit
  // there, since the terms of dQ before are still in flight; else through the rows of dQ.
  __device__ void store_key_gradients(int sequence, int kv_head, int block) const {
    const int key = block * kKeys + warp() * 16;
    if constexpr (stages_in_d_scores) {
      auto& buffer = shared_.d_scores[tile_ % 2];
      wait_for_d_scores();
      const int row = warp() * 16 * kColumns;
      store_key_gradient(d_v_, 1, buffer[0] + row, maps_.d_v, key, kv_head, sequence);
      store_key_gradient(d_k_, shape_.scale, buffer[1] + row, maps_.d_k, key, kv_head, sequence);
    } else {
      T* const staged = reinterpret_cast<T*>(shared_.d_q[tile_ % 2] + warp() * kWarpSum);
      wait_for_d_q(tile_);
      store_key_gradient(d_v_, 1, staged, maps_.d_v, key, kv_head, sequence);
      wait_for_d_q(tile_);
      store_key_gradient(d_k_, shape_.scale, staged, maps_.d_k, key, kv_head, sequence);
    }
  }

  __device__ static void store_key_gradient(const KeyGradient& x, float scale, T* staged,
                                            const CUtensorMap& map, int key, int kv_head,
                                            int sequence) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < head_dim / 16; ++i) {
      const float* const from = x.values + 8 * i;
      unsigned words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w] = rounded_pair<T>(scale * from[2 * w], scale * from[2 * w + 1]);
      T* const row = staged + (i / 4 * 16 + lane % 16) * kColumns;
      stmatrix_x4(row + ((i % 4 * 2 + lane / 16) ^ (lane % 8)) * 8, words);
    }
    fence_proxy_async_shared();
    __syncwarp();
    if (lane != 0) return;
#pragma unroll
    for (int column = 0; column < head_dim; column += kColumns)
      tma_store(map, column, kv_head, key, sequence, staged + column * 16);
  }

  __device__ int warp() const {
    return warpgroup_ * kWarpgroupWarps + thread_ / kWarp;
  }

  Storage<T, head_dim>& shared_;
  const Maps& maps_;
  const AttentionShape& shape_;
  const Work& work_;
  const int warpgroup_, thread_;
  int tile_ = 0;     // of queries, counted through
  int staged_ = -1;  // tile whose dQ is in shared memory, not yet handed over
  int block_limit_ = 0, row_limits_[2] = {};  // find_limits()
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
    for (auto& turn : shared.turn) mbarrier_init(turn, kWarpgroupWarps);
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
      run_sum_writer<limited>(shared, shape, work);
  } else {
    setmaxnreg_alloc<kConsumerRegisters>();
    Consumer<T, head_dim, limited>(shared, maps, shape, work).run();
  }
}

}  // namespace attention

}  // namespace tg::cuda
