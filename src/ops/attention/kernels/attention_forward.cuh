#pragma once
// Kernel of attention_forward_hopper.h. A CTA processes tiles of 128 queries of a head, which it
// claims one by one. Two producer warps load by TMA, one queries and keys, one values; each of two
// consumer warpgroups owns 64 queries and iterates over the blocks of keys that they see, from the
// diagonal one down, with an online softmax. P stays in registers, as operand A of the P·V GEMM,
// which runs while the exponentials of the next block are computed.
#include <cmath>

#include "ops/attention/kernels/attention_forward_producer.cuh"

namespace tg::cuda::attention {

constexpr int kWarpgroupQueries = kQueryTile / kConsumers;
constexpr float kLn2 = 0.6931471805599453f;
// Whether the warpgroups issue their GEMMs in turns. With heads of 64 exponentials take as long as
// GEMMs, and turns make the kernel 8 % faster; with heads of 128 they change nothing.
template <int head_dim>
constexpr bool kTakesTurns = head_dim == 64;

template <typename T, int head_dim>
class ForwardConsumer {
 public:
  __device__ ForwardConsumer(ForwardStorage<T, head_dim>& shared, const ForwardMaps& maps,
                             const AttentionShape& shape, const ForwardWork& work)
      : shared_(shared),
        maps_(maps),
        shape_(shape),
        work_(work),
        warpgroup_(static_cast<int>(threadIdx.x) / kWarpgroupThreads - 1),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads),
        scale_(shape.scale * kLog2E) {}

  __device__ void run() {
    const ForwardTiles tiles{shape_, work_};
    const int count = tiles.count();
#pragma unroll 1
    for (int n = 0;; ++n) {
      const int stage = n % kStages;
      mbarrier_wait(shared_.q_full[stage], n / kStages % 2);
      const int index = shared_.tiles[stage];
      if (index >= count) break;
      attend(tiles, tiles.at(index), stage, n > 0);
    }
    if (thread_ % kWarp == 0) bulk_wait();
  }

 private:
  using Scores = WgmmaAccumulators<kKeys>;     // of 64 queries
  using Output = WgmmaAccumulators<head_dim>;  // of 64 queries

  // `releases`: the tile before is still in shared memory, until its output is stored.
  __device__ void attend(const ForwardTiles& tiles, const QueryTile& tile, int stage,
                         bool releases) {
    const int own_query = tile.first_query + warpgroup_ * kWarpgroupQueries;
    for (int half = 0; half < 2; ++half)
      first_keys_[half] = tiles.visible_from(tile.sequence, own_query + row() + half * 8);
    last_first_key_ = tiles.visible_from(tile.sequence, own_query + kWarpgroupQueries - 1);
    const int own_blocks =
        tiles.key_blocks(tile.first_query, tiles.visible_from(tile.sequence, own_query));
    const T* const q = shared_.q[stage] + warpgroup_ * kWarpgroupQueries * kColumns;

    Scores scores;
    unsigned p_words[kKeys / 4];
    float factors[2];
    max_[0] = max_[1] = -INFINITY;
    sum_[0] = sum_[1] = 0;
    wait_for_turn(block_);
    issue_scores(scores, q, block_);
    end_turn();
    if (releases) release_queries(1 - stage);
    wgmma_wait<0>();
    scores.fence();
    release(shared_.k_empty, block_);
    mask(scores, own_query, tile.first_query);
    exponentiate(scores, factors);
    to_words(scores, p_words);
#pragma unroll 1
    for (int i = 1; i < own_blocks; ++i) {
      wait_for_turn(block_ + i);
      issue_scores(scores, q, block_ + i);
      issue_values(p_words, block_ + i - 1, i > 1);
      end_turn();
      wgmma_wait<1>();
      scores.fence();
      release(shared_.k_empty, block_ + i);
      const int first_key = tile.first_query - i * kKeys;
      if (first_key < last_first_key_) mask(scores, own_query, first_key);
      exponentiate(scores, factors);
      wgmma_wait<0>();
      out_.fence();
      release(shared_.v_empty, block_ + i - 1);
#pragma unroll
      for (int v = 0; v < head_dim / 2; ++v) out_.values[v] *= factors[v / 2 % 2];
      to_words(scores, p_words);
    }
    issue_values(p_words, block_ + own_blocks - 1, own_blocks > 1);
    wgmma_wait<0>();
    out_.fence();
    release(shared_.v_empty, block_ + own_blocks - 1);
    // Blocks that only the other warpgroup's queries see.
#pragma unroll 1
    for (int i = own_blocks; i < tile.key_blocks; ++i) {
      wait_for_turn(block_ + i);
      end_turn();
      const int stage = (block_ + i) % kStages, parity = (block_ + i) / kStages % 2;
      mbarrier_wait(shared_.k_full[stage], parity);
      release(shared_.k_empty, block_ + i);
      mbarrier_wait(shared_.v_full[stage], parity);
      release(shared_.v_empty, block_ + i);
    }
    block_ += tile.key_blocks;
    store(tile, own_query, stage);
  }

  __device__ void arrive(Barrier& barrier) const {
    __syncwarp();
    if (thread_ % kWarp == 0) mbarrier_arrive(barrier);
  }
  __device__ void release(Barrier (&empty)[kStages], int block) const {
    arrive(empty[block % kStages]);
  }

  // Warpgroup 1 issues the GEMMs of a key block after warpgroup 0 has, and warpgroup 0 after
  // warpgroup 1 has issued the GEMMs of the block before, so that one computes exponentials while
  // the other's GEMMs run on the tensor cores.
  __device__ void wait_for_turn(int block) const {
    if constexpr (kTakesTurns<head_dim>)
      mbarrier_wait(shared_.order[warpgroup_], block % 2 ^ (warpgroup_ == 0));
  }
  __device__ void end_turn() const {
    if constexpr (kTakesTurns<head_dim>) arrive(shared_.order[1 - warpgroup_]);
  }

  // Issues scores [64 queries, 128 keys] = Q·Kᵀ.
  __device__ void issue_scores(Scores& scores, const T* q, int block) const {
    const int stage = block % kStages;
    mbarrier_wait(shared_.k_full[stage], block / kStages % 2);
    wgmma_fence();
    const auto a = smem_descriptor(q, 1024, 16), b = smem_descriptor(shared_.k[stage], 1024, 16);
#pragma unroll
    for (int k = 0; k < head_dim / 16; ++k) {
      const int offset = k / 4 * (kKeys / 16) * kRows16 + k % 4 * kElements16;
      wgmma<T, false>(scores, a + offset, b + offset, k > 0);
    }
    wgmma_commit();
  }

  // Issues out += P·V (out = P·V unless `accumulates`).
  __device__ void issue_values(const unsigned* p_words, int block, bool accumulates) {
    const int stage = block % kStages;
    mbarrier_wait(shared_.v_full[stage], block / kStages % 2);
    wgmma_fence();
    const auto b = smem_descriptor(shared_.v[stage], 1024, kKeys * kColumns * sizeof(T));
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k)
      wgmma_of_registers<T>(out_, p_words + 4 * k, b + k * kRows16, accumulates || k > 0);
    wgmma_commit();
  }

  // Returns the first of the thread's two accumulator rows, of its warpgroup.
  __device__ int row() const {
    return thread_ / kWarp * 16 + thread_ % kWarp / 4;
  }

  // Hides keys behind a row's query and before the first key that it sees.
  __device__ void mask(Scores& scores, int own_query, int first_key) const {
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int half = i / 2 % 2, key = first_key + 2 * (thread_ % 4) + i / 4 * 8 + i % 2;
      if (key > own_query + row() + half * 8 || key < first_keys_[half])
        scores.values[i] = -INFINITY;
    }
  }

  // Updates the rows' maxima and sums, and computes P = exp(scale·(S − maximum)) in place. Returns
  // the factors of what was summed with the maxima before. A row sees a key of its first block, so
  // that no maximum is infinite.
  __device__ void exponentiate(Scores& scores, float (&factors)[2]) {
    float shift[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = max_[half];
#pragma unroll
      for (int i = 0; i < kKeys / 4; ++i)
        largest = fmaxf(largest, scores.values[i / 2 * 4 + half * 2 + i % 2]);
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2)  // the other lanes of the row
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, distance));
      factors[half] = fast_exp2((max_[half] - largest) * scale_);
      max_[half] = largest;
      shift[half] = largest * scale_;
      sum_[half] *= factors[half];
    }
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      float& x = scores.values[i];
      x = fast_exp2(x * scale_ - shift[i / 2 % 2]);
      sum_[i / 2 % 2] += x;
    }
  }

  __device__ static void to_words(const Scores& p, unsigned (&words)[kKeys / 4]) {
#pragma unroll
    for (int w = 0; w < kKeys / 4; ++w)
      words[w] = rounded_pair<T>(p.values[2 * w], p.values[2 * w + 1]);
  }

  // Stores the output, staged in place of the queries, and log Σ exp(scale·S).
  __device__ void store(const QueryTile& tile, int own_query, int stage) {
    float scales[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = warp_sum<4>(sum_[half]);
      const int query = own_query + row() + half * 8;
      scales[half] = 1 / sum;
      if (thread_ % 4 == 0 && query < shape_.seq_len)
        work_.logsumexp[(std::int64_t{tile.sequence} * shape_.heads + tile.head) * shape_.seq_len +
                        query] = (max_[half] * scale_ + log2f(sum)) * kLn2;
    }
    named_barrier_sync(1 + warpgroup_, kWarpgroupThreads);  // all have read the queries
    const int warp_row = warpgroup_ * kWarpgroupQueries + thread_ / kWarp * 16;
    store_rows<T, head_dim>(out_, scales, shared_.q[stage] + warp_row * kColumns, kQueryTile,
                            maps_.y, tile.head, tile.first_query + warp_row, tile.sequence);
  }
  __device__ void release_queries(int stage) const {
    if (thread_ % kWarp == 0) tma_store_wait_read<0>();
    arrive(shared_.q_empty[stage]);
  }

  ForwardStorage<T, head_dim>& shared_;
  const ForwardMaps& maps_;
  const AttentionShape& shape_;
  const ForwardWork& work_;
  const int warpgroup_, thread_;
  const float scale_;  // of scores whose exponentials have base 2
  int block_ = 0;      // index of the tile's first key block, counted over all tiles
  int first_keys_[2] = {}, last_first_key_ = 0;  // that the thread's rows and the last one see
  float max_[2], sum_[2];                        // of the thread's rows; sums over its own columns
  Output out_;
};

template <typename T, int head_dim>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ ForwardMaps maps,
                   const __grid_constant__ AttentionShape shape,
                   const __grid_constant__ ForwardWork work) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardStorage<T, head_dim>*>(memory);
  if (threadIdx.x == 0) {
    for (auto& order : shared.order) mbarrier_init(order, kWarpgroupWarps);
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(shared.q_full[s], 1);
      mbarrier_init(shared.q_empty[s], kConsumerWarps);
      mbarrier_init(shared.k_full[s], 1);
      mbarrier_init(shared.k_empty[s], kConsumerWarps);
      mbarrier_init(shared.v_full[s], 1);
      mbarrier_init(shared.v_empty[s], kConsumerWarps);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dealloc<kProducerRegisters>();
    if (threadIdx.x == 0)
      run_forward_producer(shared, maps, shape, work);
    else if (threadIdx.x == kWarp)
      run_value_producer(shared, maps, shape, work);
  } else {
    setmaxnreg_alloc<kConsumerRegisters>();
    ForwardConsumer<T, head_dim>(shared, maps, shape, work).run();
  }
}

}  // namespace tg::cuda::attention
