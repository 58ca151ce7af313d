// Backward pass of causal attention on Hopper. A CTA has blocks of 128 keys, whose gradients stay
// in registers while all queries that see them pass by, those of every query head of the keys' head
// in turn. Two consumer warpgroups have 64 keys each. Scores are computed transposed, keys by
// queries: so the probabilities and their gradients are, in registers, operand A of the products
// that give dV and dK. For dQ, whose sum is over all keys, the warpgroups exchange the gradients of
// the scores in shared memory, and each adds the sum over the block for 64 queries to global
// memory. It does so for the queries before while it computes those of now, so that neither waits
// for the other.
#include <algorithm>

#include "ops/attention/attention_backward_hopper.h"
#include "ops/attention/head_vectors.cuh"
#include "ops/gemm/hopper/gemm_launch.cuh"

namespace tg::cuda {

namespace {

using namespace hopper;

constexpr int kHeadDim = kAttentionHeadDim, kBlock = kAttentionBlock;
constexpr int kStages = 2, kConsumers = 2;
constexpr int kTile = kBlock * kHeadDim;  // elements
constexpr int kKSteps = kBlock / 16;      // of a wgmma over a block's rows
constexpr int kWarpSum = 16 * kHeadDim;   // of 64 queries' sums, a warp's
constexpr float kLog2E = 1.4426950408889634f;

__device__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Rows of 128 bytes with the 128-byte swizzle.
template <typename T>
struct AttentionStorage {
  T k[kTile], v[kTile];
  T q[kStages][kTile], d_out[kStages][kTile];
  T d_scores[2][kBlock / 64][kTile];  // keys by 64 queries
  float d_q[kConsumers][64 * kHeadDim];
  float logsumexp[kStages][kBlock], delta[kStages][kBlock];
  Barrier kv_full, kv_empty;
  Barrier q_full[kStages], q_empty[kStages];
  Barrier d_out_full[kStages], d_out_empty[kStages];
  Barrier d_scores_full[2], d_scores_empty[2];
};

struct AttentionMaps {
  CUtensorMap q, k, v, d_out;
  CUtensorMap d_k, d_v;
};
// Workspaces: of rows, [B, heads, padded T]: log2(e)·logsumexp, and delta, the dot products of out
// and d_out. q_sum is in the order of the accumulators: see load_query_sum.
struct AttentionWork {
  const float *logsumexp, *delta;
  float* q_sum;
};

// Blocks of keys come in pairs, the first with the last: then all have the same number of queries.
struct KeyBlocks {
  int kv_heads, blocks, pairs, count;  // blocks of a sequence; pairs of all

  __host__ __device__ explicit KeyBlocks(const AttentionShape& of)
      : kv_heads(of.kv_heads),
        blocks(of.padded_len / kBlock),
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

template <typename T>
__device__ void load_blocks(AttentionStorage<T>& shared, const AttentionMaps& maps,
                            const AttentionShape& shape, const AttentionWork& work) {
  constexpr int tile_bytes = kTile * sizeof(T), row_bytes = kBlock * sizeof(float);
  const int group = shape.heads / shape.kv_heads, rows = shape.padded_len;
  const KeyBlocks key_blocks(shape);
  int visited = 0, tile = 0;
  key_blocks.for_each([&](int sequence, int kv_head, int block) {
    mbarrier_wait(shared.kv_empty, visited++ % 2 ^ 1);
    mbarrier_arrive_expect_tx(shared.kv_full, 2 * tile_bytes);
    tma_load(shared.k, maps.k, 0, kv_head, block * kBlock, sequence, shared.kv_full);
    tma_load(shared.v, maps.v, 0, kv_head, block * kBlock, sequence, shared.kv_full);
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
#pragma unroll 1
      for (int m = block; m < key_blocks.blocks; ++m, ++tile) {
        const int stage = tile % kStages, parity = tile / kStages % 2 ^ 1, row = m * kBlock;
        const auto stats = (std::int64_t{sequence} * shape.heads + head) * rows + row;
        mbarrier_wait(shared.q_empty[stage], parity);
        mbarrier_arrive_expect_tx(shared.q_full[stage], tile_bytes + row_bytes);
        tma_load(shared.q[stage], maps.q, 0, head, row, sequence, shared.q_full[stage]);
        bulk_load(shared.logsumexp[stage], work.logsumexp + stats, row_bytes, shared.q_full[stage]);
        mbarrier_wait(shared.d_out_empty[stage], parity);
        mbarrier_arrive_expect_tx(shared.d_out_full[stage], tile_bytes + row_bytes);
        tma_load(shared.d_out[stage], maps.d_out, 0, head, row, sequence, shared.d_out_full[stage]);
        bulk_load(shared.delta[stage], work.delta + stats, row_bytes, shared.d_out_full[stage]);
      }
    }
  });
}

template <typename T>
class AttentionConsumer {
 public:
  __device__ AttentionConsumer(AttentionStorage<T>& shared, const AttentionMaps& maps,
                               const AttentionShape& shape, const AttentionWork& work)
      : shared_(shared),
        maps_(maps),
        shape_(shape),
        work_(work),
        warpgroup_(static_cast<int>(threadIdx.x) / kWarpgroupThreads - 1),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads) {}

  __device__ void run() {
    const KeyBlocks key_blocks(shape_);
    const int group = shape_.heads / shape_.kv_heads;
    int visited = 0;
    key_blocks.for_each([&](int sequence, int kv_head, int block) {
      mbarrier_wait(shared_.kv_full, visited++ % 2);
      // Tiles of q_sum.
      int of_head = (sequence * shape_.heads + kv_head * group) * key_blocks.blocks, before = -1;
      int m = block;
#pragma unroll 1
      for (int steps = group * (key_blocks.blocks - block); steps > 0; --steps) {
        step(m == block, before);
        before = of_head + m;
        if (++m == key_blocks.blocks) m = block, of_head += key_blocks.blocks;
      }
      WgmmaAccumulators<64> d_q;
      start_d_q(d_q);
      add_staged();
      end_d_q(d_q, before);
      arrive(shared_.kv_empty);
      add_staged();
      store_key_gradients(sequence, kv_head, block);
    });
    if (thread_ % kWarp == 0) bulk_wait();
  }

 private:
  __device__ void arrive(Barrier& barrier) const {
    __syncwarp();
    if (thread_ % kWarp == 0) mbarrier_arrive(barrier);
  }

  // One block of queries; `before` belongs to the one before, null for the first of a block of
  // keys.
  __device__ void step(bool diagonal, int before) {
    const int stage = tile_ % kStages, parity = tile_ / kStages % 2;
    const bool first = before < 0;
    unsigned p_words[kBlock / 4], ds_words[kBlock / 4];
    {
      WgmmaAccumulators<kBlock> p, dp;
      mbarrier_wait(shared_.q_full[stage], parity);
      start_scores(p, shared_.k, shared_.q[stage]);
      mbarrier_wait(shared_.d_out_full[stage], parity);
      start_scores(dp, shared_.v, shared_.d_out[stage]);
      add_staged();

      wgmma_wait<1>();
      p.fence();
      probabilities(p, diagonal, shared_.logsumexp[stage]);
      wgmma_wait<0>();
      dp.fence();
      const float* const delta = shared_.delta[stage] + 2 * (thread_ % 4);
#pragma unroll
      for (int i = 0; i < kBlock / 8; ++i) {
        const float2 d = *reinterpret_cast<const float2*>(delta + 8 * i);
        const float *const x = p.values + 4 * i, *const dx = dp.values + 4 * i;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float low = x[2 * half], high = x[2 * half + 1];
          p_words[2 * i + half] = rounded_pair<T>(low, high);
          ds_words[2 * i + half] =
              rounded_pair<T>(low * (dx[2 * half] - d.x), high * (dx[2 * half + 1] - d.y));
        }
      }
    }
    start_key_gradient(d_v_, p_words, shared_.d_out[stage], first);
    start_key_gradient(d_k_, ds_words, shared_.q[stage], first);
    if (first) {
      store_d_scores(ds_words);
      wgmma_wait<0>();
      release(stage);
    } else {
      WgmmaAccumulators<64> d_q;
      start_d_q(d_q);
      store_d_scores(ds_words);
      wgmma_wait<1>();
      release(stage);
      end_d_q(d_q, before);
    }
    ++tile_;
  }

  __device__ void release(int stage) {
    d_v_.fence();
    d_k_.fence();
    arrive(shared_.q_empty[stage]);
    arrive(shared_.d_out_empty[stage]);
    fence_proxy_async_shared();
    arrive(shared_.d_scores_full[tile_ % 2]);
  }

  // [64 keys, queries] = rows of `keys` times `queries` transposed.
  __device__ void start_scores(WgmmaAccumulators<kBlock>& scores, const T* keys, const T* queries) {
    wgmma_fence();
    const auto a = smem_descriptor(keys + warpgroup_ * 64 * kHeadDim, 1024, 16);
    const auto b = smem_descriptor(queries, 1024, 16);
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) wgmma<T, false>(scores, a + 2 * k, b + 2 * k, k > 0);
    wgmma_commit();
  }

  __device__ void probabilities(WgmmaAccumulators<kBlock>& scores, bool diagonal,
                                const float* logsumexp) const {
    const float scale = shape_.scale * kLog2E;
    const int column = 2 * (thread_ % 4);
    if (diagonal) {
      const int row = warpgroup_ * 64 + thread_ / kWarp * 16 + thread_ % kWarp / 4;
#pragma unroll
      for (int i = 0; i < kBlock / 2; ++i)
        if (row + i / 2 % 2 * 8 > column + i / 4 * 8 + i % 2) scores.values[i] = -INFINITY;
    }
#pragma unroll
    for (int i = 0; i < kBlock / 8; ++i) {
      const float2 l = *reinterpret_cast<const float2*>(logsumexp + column + 8 * i);
      float* const x = scores.values + 4 * i;
#pragma unroll
      for (int e = 0; e < 4; ++e) x[e] = exp2_approx(x[e] * scale - (e % 2 ? l.y : l.x));
    }
  }

  // sum += words [64 keys, queries] times `rows` [queries, 64].
  __device__ void start_key_gradient(WgmmaAccumulators<64>& sum, const unsigned* words,
                                     const T* rows, bool first) {
    wgmma_fence();
    const auto b = smem_descriptor(rows, 1024, 1024);
#pragma unroll
    for (int k = 0; k < kKSteps; ++k)
      wgmma_of_registers<T>(sum, words + 4 * k, b + 128 * k, !first || k > 0);
    wgmma_commit();
  }

  __device__ void store_d_scores(const unsigned* words) {
    const int buffer = tile_ % 2;
    mbarrier_wait(shared_.d_scores_empty[buffer], tile_ / 2 % 2 ^ 1);
    const int lane = thread_ % kWarp;
    const int row = warpgroup_ * 64 + thread_ / kWarp * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < kKSteps; ++k) {
      T* const rows = shared_.d_scores[buffer][k / 4] + row * 64;
      stmatrix_x4(rows + ((k % 4 * 2 + lane / 16) ^ (row % 8)) * 8,
                  {words[4 * k], words[4 * k + 1], words[4 * k + 2], words[4 * k + 3]});
    }
  }

  // Of the last block of queries whose scores' gradients are stored: [64 queries, 64] = those of
  // all keys, transposed, times the keys.
  __device__ void start_d_q(WgmmaAccumulators<64>& d_q) {
    const int before = tile_ - 1, buffer = before % 2;
    mbarrier_wait(shared_.d_scores_full[buffer], before / 2 % 2);
    wgmma_fence();
    const auto a = smem_descriptor(shared_.d_scores[buffer][warpgroup_], 1024, 1024);
    const auto b = smem_descriptor(shared_.k, 1024, 1024);
#pragma unroll
    for (int k = 0; k < kKSteps; ++k) wgmma<T, true>(d_q, a + 128 * k, b + 128 * k, k > 0);
    wgmma_commit();
  }

  __device__ void end_d_q(WgmmaAccumulators<64>& d_q, int sum_tile) {
    wgmma_wait<0>();
    d_q.fence();
    arrive(shared_.d_scores_empty[(tile_ - 1) % 2]);
    const int lane = thread_ % kWarp, offset = thread_ / kWarp * kWarpSum;
    if (lane == 0) tma_store_wait_read<0>();
    __syncwarp();
    float* const staged = shared_.d_q[warpgroup_] + offset;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float* const x = d_q.values + i / 2 * 8 + i % 2 * 2;
      const float s = shape_.scale;
      reinterpret_cast<float4*>(staged)[i * kWarp + lane] = {s * x[0], s * x[1], s * x[4],
                                                             s * x[5]};
    }
    staged_ = sum_tile;
  }

  // Adds what end_d_q left in shared memory, later, so that nothing waits for its stores.
  __device__ void add_staged() {
    if (staged_ < 0) return;
    fence_proxy_async_shared();
    __syncwarp();
    const int offset = (warpgroup_ * kWarpgroupWarps + thread_ / kWarp) * kWarpSum;
    if (thread_ % kWarp == 0)
      bulk_add(work_.q_sum + std::int64_t{staged_} * kTile + offset, shared_.d_q[0] + offset,
               kWarpSum * sizeof(float));
    staged_ = -1;
  }

  // Through the memory that end_d_q uses, each warp by itself.
  __device__ void store_key_gradients(int sequence, int kv_head, int block) {
    const int lane = thread_ % kWarp, warp = warpgroup_ * kWarpgroupWarps + thread_ / kWarp;
    T* const staged = reinterpret_cast<T*>(shared_.d_q[0] + warp * kWarpSum);
    if (lane == 0) tma_store_wait_read<0>();
    __syncwarp();
    T* const row = staged + lane % 16 * kHeadDim;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      T* const to = row + ((2 * i + lane / 16) ^ (lane % 8)) * 8;
      stmatrix_x4(to, rounded_words(d_v_.values + 8 * i, 1).words);
      stmatrix_x4(to + 16 * kHeadDim, rounded_words(d_k_.values + 8 * i, shape_.scale).words);
    }
    fence_proxy_async_shared();
    __syncwarp();
    if (lane != 0) return;
    const int key = block * kBlock + warp * 16;
    tma_store(maps_.d_v, 0, kv_head, key, sequence, staged);
    tma_store(maps_.d_k, 0, kv_head, key, sequence, staged + 16 * kHeadDim);
  }
  struct Words {
    unsigned words[4];
  };
  __device__ static Words rounded_words(const float* x, float scale) {
    Words out;
#pragma unroll
    for (int w = 0; w < 4; ++w)
      out.words[w] = rounded_pair<T>(scale * x[2 * w], scale * x[2 * w + 1]);
    return out;
  }

  AttentionStorage<T>& shared_;
  const AttentionMaps& maps_;
  const AttentionShape& shape_;
  const AttentionWork& work_;
  const int warpgroup_, thread_;
  int staged_ = -1;
  int tile_ = 0;  // blocks of queries so far
  WgmmaAccumulators<64> d_k_, d_v_;
};

template <typename T>
__global__ void __launch_bounds__(kGemmThreads, 1)
    attention_backward_kernel(const __grid_constant__ AttentionMaps maps,
                              const __grid_constant__ AttentionShape shape,
                              const __grid_constant__ AttentionWork work) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<AttentionStorage<T>*>(memory);
  if (threadIdx.x == 0) {
    constexpr int consumer_warps = kConsumers * kWarpgroupWarps;
    mbarrier_init(shared.kv_full, 1);
    mbarrier_init(shared.kv_empty, consumer_warps);
    for (int s = 0; s < kStages; ++s) {
      mbarrier_init(shared.q_full[s], 1);
      mbarrier_init(shared.q_empty[s], consumer_warps);
      mbarrier_init(shared.d_out_full[s], 1);
      mbarrier_init(shared.d_out_empty[s], consumer_warps);
    }
    for (int s = 0; s < 2; ++s) {
      mbarrier_init(shared.d_scores_full[s], consumer_warps);
      mbarrier_init(shared.d_scores_empty[s], consumer_warps);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroupThreads) {
    setmaxnreg_dealloc<kProducerRegisters>();
    if (threadIdx.x == 0) load_blocks(shared, maps, shape, work);
  } else {
    setmaxnreg_alloc<kConsumerRegisters>();
    AttentionConsumer<T>(shared, maps, shape, work).run();
  }
}

// A warp takes a token, 8 lanes a head.
template <typename T>
__global__ void __launch_bounds__(kHeadThreads)
    row_stats_kernel(AttentionShape shape, AttentionTensors in, float* logsumexp, float* delta) {
  const HeadLane<T, 8> lane;
  const int rows = shape.padded_len, padded_tokens = shape.batch * rows;
  for (int index = grid_warp_index(); index < padded_tokens; index += num_grid_warps()) {
    const int sequence = index / rows, row = index % rows;
    const bool real = row < shape.seq_len;
    const int token = sequence * shape.seq_len + row;
    for (int first = 0; first < shape.heads; first += lane.heads_per_warp) {
      const int head = first + lane.head;
      const bool in_bounds = real && head < shape.heads;
      const float sum =
          warp_sum<8>(dot(load_head<T>(in.out, token, head, lane.offset, in_bounds),
                          load_head<T>(in.d_out, token, head, lane.offset, in_bounds)));
      if (lane.index != 0 || head >= shape.heads) continue;
      const auto of_head = std::int64_t{sequence} * shape.heads + head;
      delta[of_head * rows + row] = sum;
      // Padding has probabilities of 0.
      logsumexp[of_head * rows + row] =
          real ? kLog2E * in.logsumexp[of_head * shape.seq_len + row] : INFINITY;
    }
  }
}

// 8 channels of a query's row in q_sum. Of 16 queries the accumulators 8·p + {0, 1, 4, 5} and 8·p +
// {2, 3, 6, 7} (WgmmaAccumulators) of a lane are floats 4·lane and on of the runs 2·p and 2·p + 1
// of 128.
__device__ void load_query_sum(const float* sequence_of_head, int row, int pack, float (&x)[8]) {
  const int lane = row % 8 * 4, run = pack / 2 * 2 + row / 8 % 2;
  const float* const at = sequence_of_head + row / 16 * kWarpSum + (run * kWarp + lane) * 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = *reinterpret_cast<const float2*>(at + 4 * i + pack % 2 * 2);
    x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
  }
}

template <typename T>
__global__ void __launch_bounds__(kHeadThreads)
    round_q_sum_kernel(AttentionShape shape, const float* q_sum, T* d_q) {
  const int rows = shape.padded_len;
  const auto packs = std::int64_t{shape.batch} * shape.seq_len * shape.heads * 8;
  for (auto i = std::int64_t{blockIdx.x} * kHeadThreads + threadIdx.x; i < packs;
       i += std::int64_t{gridDim.x} * kHeadThreads) {
    const int pack = static_cast<int>(i % 8), head = static_cast<int>(i / 8 % shape.heads);
    const auto token = i / 8 / shape.heads;
    const auto sequence = token / shape.seq_len;
    float x[8];
    load_query_sum(q_sum + (sequence * shape.heads + head) * rows * kHeadDim,
                   static_cast<int>(token % shape.seq_len), pack, x);
    store_rounded(d_q + i * 8, x);
  }
}

// Boxes of `box_tokens` of one head; tokens beyond the sequence are zero.
template <typename T>
CUtensorMap make_heads_map(const HeadVectors& of, const AttentionShape& shape, int heads,
                           cuuint32_t box_tokens = kBlock) {
  const auto token_bytes = static_cast<cuuint64_t>(of.token_stride) * sizeof(T);
  const auto tokens = static_cast<cuuint64_t>(shape.seq_len);
  return encode_tensor_map<T, 4>(
      of.data,
      {kHeadDim, static_cast<cuuint64_t>(heads), tokens, static_cast<cuuint64_t>(shape.batch)},
      {static_cast<cuuint64_t>(of.head_stride) * sizeof(T), token_bytes, token_bytes * tokens},
      {kHeadDim, 1, box_tokens, 1});
}

}  // namespace

void attention_backward(const AttentionShape& shape, const AttentionTensors& in,
                        const AttentionGradients& out, Dtype dtype, Stream stream) {
  const int rows = shape.padded_len, tokens = shape.batch * shape.seq_len;
  if (tokens == 0) return;
  float *const logsumexp = out.row_stats, *const delta = logsumexp + std::int64_t{shape.batch} *
                                                                         shape.heads * rows;
  dispatch_half(dtype, [&](auto zero) {
    using T = decltype(zero);
    row_stats_kernel<T><<<blocks_for((shape.batch * rows + kHeadWarps - 1) / kHeadWarps, 8),
                          kHeadThreads, 0, stream>>>(shape, in, logsumexp, delta);
    check_launch("attention_backward: row_stats");

    const auto key_heads = [&](const void* contiguous) {
      return HeadVectors{contiguous, shape.kv_heads * kHeadDim, kHeadDim};
    };
    const AttentionMaps maps{make_heads_map<T>(in.q, shape, shape.heads),
                             make_heads_map<T>(in.k, shape, shape.kv_heads),
                             make_heads_map<T>(in.v, shape, shape.kv_heads),
                             make_heads_map<T>(in.d_out, shape, shape.heads),
                             make_heads_map<T>(key_heads(out.k), shape, shape.kv_heads, 16),
                             make_heads_map<T>(key_heads(out.v), shape, shape.kv_heads, 16)};
    constexpr auto smem_bytes = sizeof(AttentionStorage<T>);
    const auto kernel = attention_backward_kernel<T>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
    kernel<<<blocks_for(KeyBlocks(shape).count, 1), kGemmThreads, smem_bytes, stream>>>(
        maps, shape, {logsumexp, delta, out.q_sum});
    check_launch("attention_backward");

    round_q_sum_kernel<T>
        <<<blocks_for(std::int64_t{tokens} * shape.heads * 8 / kHeadThreads + 1, 8), kHeadThreads,
           0, stream>>>(shape, out.q_sum, static_cast<T*>(out.q));
    check_launch("attention_backward: round_q_sum");
  });
}

}  // namespace tg::cuda
