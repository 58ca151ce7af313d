// Heads with weights of their tokens. Forward reads y and v once and writes the output once.
// Backward reads y, v and the upstream gradient once and writes every gradient once. The lanes that
// hold a KV head loop over the query heads of its group.
#include "ops/attention/kernels/head_vectors.cuh"
#include "ops/attention/kernels/token_weights_kernel.h"

namespace tg::cuda {

namespace {

constexpr float kLeastSquare = 1e-8f;
constexpr int kBlocks = 16;  // per SM

// The KV head that the lanes of a group hold, one of all tokens' heads; all lanes of a warp loop
// alike.
template <typename T, int lanes>
struct KvHeads {
  const HeadLane<T, lanes> lane;
  const std::int64_t count;
  std::int64_t first = std::int64_t{grid_warp_index()} * lane.heads_per_warp;
  int token, kv_head;
  bool in_bounds;

  __device__ explicit KvHeads(const ExclusiveShape& shape)
      : count(std::int64_t{shape.tokens} * shape.kv_heads) {}
  // Returns false behind the last head of the warp.
  __device__ bool next(const ExclusiveShape& shape) {
    if (first >= count) return false;
    const auto index = first + lane.head;
    token = static_cast<int>(index / shape.kv_heads);
    kv_head = static_cast<int>(index - std::int64_t{token} * shape.kv_heads);
    in_bounds = index < count && lane.offset < shape.head_dim;
    first += std::int64_t{num_grid_warps()} * lane.heads_per_warp;
    return true;
  }
};

// The weight of a token's head as fp32; `none` without weights.
template <typename T>
__device__ float weight_of(const TokenNumbers& weights, int token, int head, bool in_bounds,
                           float none) {
  if (weights.data == nullptr || !in_bounds) return none;
  return static_cast<float>(
      static_cast<const T*>(weights.data)[token * weights.token_stride + head]);
}

template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    forward_kernel(ExclusiveShape shape, WeightedHeadsInputs in, T* __restrict__ out) {
  using P = Pack<T>;
  const int group = shape.heads / shape.kv_heads;
  for (KvHeads<T, lanes> at(shape); at.next(shape);) {
    const int offset = at.lane.offset;
    const P v = load_head<T>(in.v, at.token, at.kv_head, offset, at.in_bounds);
    const float scale = 1 / fmaxf(warp_sum<lanes>(dot(v, v)), kLeastSquare);
    for (int head = at.kv_head * group; head < (at.kv_head + 1) * group; ++head) {
      const P y = load_head<T>(in.y, at.token, head, offset, at.in_bounds);
      const float weight = tanhf(weight_of<T>(in.exclusive, at.token, head, at.in_bounds, 0));
      const float gate = weight_of<T>(in.gate, at.token, head, at.in_bounds, 1);
      const float share = weight * scale * warp_sum<lanes>(dot(y, v));
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) result[i] = gate * (y[i] - share * v[i]);
      const auto index = std::int64_t{at.token} * shape.heads + head;
      if (at.in_bounds) store_rounded(out + index * shape.head_dim + offset, result);
    }
  }
}

// With s = y·v, p = dout·v, m = max(‖v‖², least), a = tanh(w), the share c = a·s/m and the gate γ:
// dγ = y·dout − c·p, dc = −γ·p, dw = dc·(1 − a²)·s/m, ds = dc·a/m, dy = γ·dout + ds·v, and
// dv = Σ over the group of ds·y − c·γ·dout − 2·(dc·c/m)·v, without the last term below the least
// square.
template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    backward_kernel(ExclusiveShape shape, WeightedHeadsInputs in, HeadVectors d_out,
                    T* __restrict__ dy, T* __restrict__ dv, T* __restrict__ d_exclusive,
                    T* __restrict__ d_gate) {
  using P = Pack<T>;
  const int group = shape.heads / shape.kv_heads;
  for (KvHeads<T, lanes> at(shape); at.next(shape);) {
    const int offset = at.lane.offset;
    const P v = load_head<T>(in.v, at.token, at.kv_head, offset, at.in_bounds);
    const float square = warp_sum<lanes>(dot(v, v));
    const float scale = 1 / fmaxf(square, kLeastSquare);
    float d_square = 0, dv_pack[P::size] = {};
    for (int head = at.kv_head * group; head < (at.kv_head + 1) * group; ++head) {
      const P y = load_head<T>(in.y, at.token, head, offset, at.in_bounds);
      const P d = load_head<T>(d_out, at.token, head, offset, at.in_bounds);
      const float weight = tanhf(weight_of<T>(in.exclusive, at.token, head, at.in_bounds, 0));
      const float gate = weight_of<T>(in.gate, at.token, head, at.in_bounds, 1);
      const float s = warp_sum<lanes>(dot(y, v)), p = warp_sum<lanes>(dot(d, v));
      const float share = weight * scale * s;
      const float d_share = -gate * p, ds = d_share * weight * scale;
      const float d_gate_value = warp_sum<lanes>(dot(y, d)) - share * p;
      d_square -= d_share * share * scale;
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) {
        result[i] = gate * d[i] + ds * v[i];
        dv_pack[i] += ds * y[i] - share * gate * d[i];
      }
      const auto index = std::int64_t{at.token} * shape.heads + head;
      if (!at.in_bounds) continue;
      store_rounded(dy + index * shape.head_dim + offset, result);
      if (at.lane.index != 0) continue;
      if (d_gate != nullptr) d_gate[index] = static_cast<T>(d_gate_value);
      if (d_exclusive != nullptr)
        d_exclusive[index] = static_cast<T>(d_share * (1 - weight * weight) * scale * s);
    }
    if (dv == nullptr) continue;
    if (square < kLeastSquare) d_square = 0;
#pragma unroll
    for (int i = 0; i < P::size; ++i) dv_pack[i] += 2 * d_square * v[i];
    const auto index = std::int64_t{at.token} * shape.kv_heads + at.kv_head;
    if (at.in_bounds) store_rounded(dv + index * shape.head_dim + offset, dv_pack);
  }
}

int grid_size(const ExclusiveShape& shape, int lanes) {
  const auto count = std::int64_t{shape.tokens} * shape.kv_heads;
  const int per_block = kHeadThreads / lanes;
  return blocks_for((count + per_block - 1) / per_block, kBlocks);
}

}  // namespace

void weighted_heads_forward(const ExclusiveShape& shape, const WeightedHeadsInputs& in, void* out,
                            Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    forward_kernel<T, lanes()>
        <<<grid_size(shape, lanes()), kHeadThreads, 0, stream>>>(shape, in, static_cast<T*>(out));
  });
  check_launch("weighted_heads_forward");
}

void weighted_heads_backward(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                             const HeadVectors& d_out, const WeightedHeadsGradients& out,
                             Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    backward_kernel<T, lanes()><<<grid_size(shape, lanes()), kHeadThreads, 0, stream>>>(
        shape, in, d_out, static_cast<T*>(out.y), static_cast<T*>(out.v),
        static_cast<T*>(out.exclusive), static_cast<T*>(out.gate));
  });
  check_launch("weighted_heads_backward");
}

}  // namespace tg::cuda
