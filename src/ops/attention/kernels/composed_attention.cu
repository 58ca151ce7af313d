// Forward kernel of composed_attention_kernel.h: a CTA computes 64 queries. A warp adds the
// weighted attention of all heads in its band, in registers, and multiplies it with each head's
// values.
#include "ops/attention/kernels/composed_attention.cuh"

namespace tg::cuda {

namespace {

using namespace composed;

// Reduces over the four lanes that hold a row.
__device__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffff, value, 2));
}

// Adds w1·P of a head to M and stores the head's logsumexp.
template <typename T, int head_dim>
__device__ void add_shares(const QueryBlock<T, head_dim>& block, const ComposedInputs& in,
                           float scale, int head, float* logsumexp, Tile (&composed)[kTiles]) {
  const auto q = block.row_operands();
  Tile scores[kTiles];
  float largest[2] = {-INFINITY, -INFINITY};
  block.for_each_tile([&](int tile) {
    scores[tile] = block.products(q, tile);
    Tile::for_each([&](int e, int half, int column) {
      float& score = scores[tile].values[e];
      score = block.visible(tile, half, column) ? score * scale : -INFINITY;
      largest[half] = fmaxf(largest[half], score);
    });
  });
  for (float& value : largest) value = row_max(value);
  float sum[2] = {};
  block.for_each_tile([&](int tile) {
    Tile::for_each([&](int e, int half, int) {
      float& score = scores[tile].values[e];
      score = fast_exp2(score - largest[half]);
      sum[half] += score;
    });
  });
  float weight[2], log2_sum[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = warp_sum<4>(sum[half]);
    weight[half] = block.row_value(in.pre, head, half) / sum[half];
    log2_sum[half] = largest[half] + log2f(sum[half]);
  }
  block.store_row_values(log2_sum, logsumexp, head);
  block.for_each_tile([&](int tile) {
    Tile::for_each([&](int e, int half, int) {
      composed[tile].values[e] += weight[half] * scores[tile].values[e];
    });
  });
}

template <typename T, int head_dim>
__global__ void __launch_bounds__(kThreads, kCtasPerSm)
    forward_kernel(const __grid_constant__ ComposedShape shape,
                   const __grid_constant__ ComposedInputs in, T* y, float* logsumexp) {
  extern __shared__ __align__(16) unsigned char memory[];
  const QueryBlock<T, head_dim> block(shape, in, memory);
  Tile composed[kTiles];
#pragma unroll 1
  for (int head = 0; head < shape.heads; ++head) {
    block.stage([&] {
      block.load_rows(in.q, head);
      block.load_columns(in.k, head);
    });
    add_shares(block, in, shape.scale * kLog2E, head, logsumexp, composed);
  }
  RoundedTile<T> weights[kTiles];
  round(composed, weights);
#pragma unroll 1
  for (int head = 0; head < shape.heads; ++head) {
    block.stage([&] { block.load_columns(in.v, head); });
    RowSums<head_dim> sums;
    block.for_each_tile([&](int tile) { block.add_columns(sums, weights[tile], tile); });
    block.store(sums, {block.row_value(in.post, head, 0), block.row_value(in.post, head, 1)}, head,
                y);
  }
}

}  // namespace

void composed_attention_forward(const ComposedShape& shape, const ComposedInputs& in, void* y,
                                float* logsumexp, Dtype dtype, Stream stream) {
  dispatch_composed(dtype, shape.head_dim, [&](auto zero, auto head_dim) {
    using T = decltype(zero);
    launch(forward_kernel<T, head_dim()>, QueryBlock<T, head_dim()>::shared_bytes, shape, stream,
           in, static_cast<T*>(y), logsumexp);
  });
  check_launch("composed_attention_forward");
}

}  // namespace tg::cuda
