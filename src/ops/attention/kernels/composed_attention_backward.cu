// Backward kernels of composed_attention_kernel.h. With M = Σ_g w1_g·P_g and G_h = dy_h·v_hᵀ:
//   dM = Σ_h w2_h·G_h, dw2_h = rowsum(M ∘ G_h), dw1_g = rowsum(dM ∘ P_g),
//   dS_g = w1_g·P_g ∘ (dM − dw1_g), since rowsum(P_g ∘ dP_g) = w1_g·dw1_g,
//   dq_g = scale·dS_g·k_g, dk_g = scale·dS_gᵀ·q_g, dv_h = Mᵀ·(w2_h·dy_h).
// A CTA of the first kernel computes 64 queries (dq, dw1, dw2), one of the second 64 keys (dk, dv).
// Both pass over the heads for M, for dM, and for dS, with P from the forward pass's logsumexp.
#include "ops/attention/kernels/composed_attention.cuh"

namespace tg::cuda {

namespace {

using namespace composed;

struct Upstream {
  HeadVectors d_y;
  const float* logsumexp;
};

// Returns P of a tile of keys, and of queries with their logsumexp in `slot`.
template <typename T, int head_dim>
__device__ Tile shares_of(const QueryBlock<T, head_dim>& block,
                          const typename QueryBlock<T, head_dim>::RowOperands& q, int tile,
                          const float (&logsumexp)[2]) {
  return block.shares(q, tile, [&](int, int half) { return logsumexp[half]; });
}

// Queries: adds w1·P of a head to M.
template <typename T, int head_dim>
__device__ void add_shares(const QueryBlock<T, head_dim>& block, const ComposedInputs& in,
                           const Upstream& upstream, int head, Tile (&composed)[kTiles]) {
  const auto q = block.row_operands();
  float logsumexp[2], weight[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    logsumexp[half] = block.row_value(upstream.logsumexp, head, half);
    weight[half] = block.row_value(in.pre, head, half);
  }
  block.for_each_tile([&](int tile) {
    const Tile p = shares_of(block, q, tile, logsumexp);
    Tile::for_each(
        [&](int e, int half, int) { composed[tile].values[e] += weight[half] * p.values[e]; });
  });
}

// Queries: adds w2·G of a head to dM and stores dw2.
template <typename T, int head_dim>
__device__ void add_gradient(const QueryBlock<T, head_dim>& block, const float* post, int head,
                             const RoundedTile<T> (&composed)[kTiles], Tile (&d_composed)[kTiles],
                             float* d_post) {
  const auto d_y = block.row_operands();
  const float weight[2] = {block.row_value(post, head, 0), block.row_value(post, head, 1)};
  float dots[2] = {};
  block.for_each_tile([&](int tile) {
    const Tile g = block.products(d_y, tile);
    Tile::for_each([&](int e, int half, int) {
      d_composed[tile].values[e] += weight[half] * g.values[e];
      dots[half] += composed[tile][e] * g.values[e];
    });
  });
  block.store_row_sums(dots, d_post, head);
}

// Queries: stores dw1 and dq of a head.
template <typename T, int head_dim>
__device__ void store_query_gradients(const QueryBlock<T, head_dim>& block,
                                      const ComposedInputs& in, const Upstream& upstream,
                                      float scale, int head, const Tile (&d_composed)[kTiles],
                                      float* d_pre, T* d_q) {
  float logsumexp[2], weight[2], sums[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    logsumexp[half] = block.row_value(upstream.logsumexp, head, half);
    weight[half] = scale * block.row_value(in.pre, head, half);
  }
  Tile p[kTiles];
  const auto q = block.row_operands();
  block.for_each_tile([&](int tile) {
    p[tile] = shares_of(block, q, tile, logsumexp);
    Tile::for_each([&](int e, int half, int) {
      sums[half] += p[tile].values[e] * d_composed[tile].values[e];
    });
  });
  for (float& sum : sums) sum = warp_sum<4>(sum);
  block.store_row_values(sums, d_pre, head);
  RoundedTile<T> d_scores[kTiles];
  block.for_each_tile([&](int tile) {
    Tile::for_each([&](int e, int half, int) {
      p[tile].values[e] *= d_composed[tile].values[e] - sums[half];
    });
    d_scores[tile] = RoundedTile<T>(p[tile]);
  });
  RowSums<head_dim> d_rows;
  block.for_each_tile([&](int tile) { block.add_columns(d_rows, d_scores[tile], tile); });
  block.store(d_rows, weight, head, d_q);
}

template <typename T, int head_dim>
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    query_kernel(const __grid_constant__ ComposedShape shape,
                 const __grid_constant__ ComposedInputs in,
                 const __grid_constant__ Upstream upstream,
                 const __grid_constant__ ComposedGradients out) {
  extern __shared__ __align__(16) unsigned char memory[];
  const QueryBlock<T, head_dim> block(shape, in, memory);
  const auto stage = [&](const HeadVectors& rows, const HeadVectors& columns, int head) {
    block.stage([&] {
      block.load_rows(rows, head);
      block.load_columns(columns, head);
    });
  };
  RoundedTile<T> composed[kTiles];
  {
    Tile sums[kTiles];
#pragma unroll 1
    for (int head = 0; head < shape.heads; ++head) {
      stage(in.q, in.k, head);
      add_shares(block, in, upstream, head, sums);
    }
    round(sums, composed);
  }
  Tile d_composed[kTiles];
#pragma unroll 1
  for (int head = 0; head < shape.heads; ++head) {
    stage(upstream.d_y, in.v, head);
    add_gradient(block, in.post, head, composed, d_composed, out.post);
  }
#pragma unroll 1
  for (int head = 0; head < shape.heads; ++head) {
    stage(in.q, in.k, head);
    store_query_gradients(block, in, upstream, shape.scale, head, d_composed, out.pre,
                          static_cast<T*>(out.q));
  }
}

// The values of queries that the second kernel reads, as columns.
enum Slot { kLogSumExp, kWeight, kWeightGradient };

template <typename T, int head_dim>
__device__ Tile shares_of(const KeyBlock<T, head_dim>& block,
                          const typename KeyBlock<T, head_dim>::RowOperands& k, int tile) {
  const auto logsumexp = block.column_values(kLogSumExp, tile);
  return block.shares(k, tile, [&](int e, int) { return logsumexp[e]; });
}

// Keys: adds w1·P of a head to M.
template <typename T, int head_dim>
__device__ void add_shares(const KeyBlock<T, head_dim>& block, Tile (&composed)[kTiles]) {
  const auto k = block.row_operands();
  block.for_each_tile([&](int tile) {
    const Tile p = shares_of(block, k, tile);
    const auto weight = block.column_values(kWeight, tile);
#pragma unroll
    for (int e = 0; e < 8; ++e) composed[tile].values[e] += weight[e] * p.values[e];
  });
}

// Keys: adds w2·G of a head to dM and stores dv.
template <typename T, int head_dim>
__device__ void add_gradient(const KeyBlock<T, head_dim>& block, int head,
                             const RoundedTile<T> (&composed)[kTiles], Tile (&d_composed)[kTiles],
                             T* d_v) {
  const auto v = block.row_operands();
  block.for_each_tile([&](int tile) {
    const Tile g = block.products(v, tile);
    const auto weight = block.column_values(kWeight, tile);
#pragma unroll
    for (int e = 0; e < 8; ++e) d_composed[tile].values[e] += weight[e] * g.values[e];
  });
  RowSums<head_dim> d_rows;
  block.for_each_tile([&](int tile) {
    const auto weight = block.column_values(kWeight, tile);
    Tile weighted;
#pragma unroll
    for (int e = 0; e < 8; ++e) weighted.values[e] = weight[e] * composed[tile][e];
    block.add_columns(d_rows, RoundedTile<T>(weighted), tile);
  });
  block.store(d_rows, {1, 1}, head, d_v);
}

// Keys: stores dk of a head.
template <typename T, int head_dim>
__device__ void store_key_gradient(const KeyBlock<T, head_dim>& block, float scale, int head,
                                   const Tile (&d_composed)[kTiles], T* d_k) {
  const auto k = block.row_operands();
  RowSums<head_dim> d_rows;
  block.for_each_tile([&](int tile) {
    Tile d = shares_of(block, k, tile);
    const auto weight = block.column_values(kWeight, tile),
               gradient = block.column_values(kWeightGradient, tile);
#pragma unroll
    for (int e = 0; e < 8; ++e)
      d.values[e] *= weight[e] * (d_composed[tile].values[e] - gradient[e]);
    block.add_columns(d_rows, RoundedTile<T>(d), tile);
  });
  block.store(d_rows, {scale, scale}, head, d_k);
}

template <typename T, int head_dim>
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    key_kernel(const __grid_constant__ ComposedShape shape,
               const __grid_constant__ ComposedInputs in, const __grid_constant__ Upstream upstream,
               const __grid_constant__ ComposedGradients out) {
  extern __shared__ __align__(16) unsigned char memory[];
  const KeyBlock<T, head_dim> block(shape, in, memory);
  const auto load_scores = [&](int head) {
    block.load_rows(in.k, head);
    block.load_columns(in.q, head);
    block.load_column_values(kLogSumExp, upstream.logsumexp, head);
    block.load_column_values(kWeight, in.pre, head);
  };
  RoundedTile<T> composed[kTiles];
  {
    Tile sums[kTiles];
#pragma unroll 1
    for (int head = 0; head < shape.heads; ++head) {
      block.stage([&] { load_scores(head); });
      add_shares(block, sums);
    }
    round(sums, composed);
  }
  Tile d_composed[kTiles];
#pragma unroll 1
  for (int head = 0; head < shape.heads; ++head) {
    block.stage([&] {
      block.load_rows(in.v, head);
      block.load_columns(upstream.d_y, head);
      block.load_column_values(kWeight, in.post, head);
    });
    add_gradient(block, head, composed, d_composed, static_cast<T*>(out.v));
  }
#pragma unroll 1
  for (int head = 0; head < shape.heads; ++head) {
    block.stage([&] {
      load_scores(head);
      block.load_column_values(kWeightGradient, out.pre, head);
    });
    store_key_gradient(block, shape.scale, head, d_composed, static_cast<T*>(out.k));
  }
}

}  // namespace

void composed_attention_backward(const ComposedShape& shape, const ComposedInputs& in,
                                 const HeadVectors& d_y, const float* logsumexp,
                                 const ComposedGradients& out, Dtype dtype, Stream stream) {
  const Upstream upstream{d_y, logsumexp};
  dispatch_composed(dtype, shape.head_dim, [&](auto zero, auto head_dim) {
    using T = decltype(zero);
    launch(query_kernel<T, head_dim()>, QueryBlock<T, head_dim()>::shared_bytes, shape, stream, in,
           upstream, out);
    check_launch("composed_attention_backward: queries");
    // Reads out.pre.
    launch(key_kernel<T, head_dim()>, KeyBlock<T, head_dim()>::shared_bytes, shape, stream, in,
           upstream, out);
  });
  check_launch("composed_attention_backward: keys");
}

}  // namespace tg::cuda
