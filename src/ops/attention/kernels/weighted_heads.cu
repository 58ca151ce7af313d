// Heads with weights of their tokens. Forward reads y and v once and writes the output once.
// Backward reads y, v and the upstream gradient once and writes every gradient once. The lanes that
// hold a KV head loop over the query heads of its group.
#include "ops/attention/kernels/head_columns.cuh"
#include "ops/attention/kernels/token_weights_kernel.h"
#include "ops/gemm/fp8.cuh"

namespace tg::cuda {

namespace {

constexpr float kLeastSquare = 1e-8f;
// Per SM, one wave: a lane prefetches its next head, so that more warps would not hide more.
constexpr int kForwardBlocks = 4, kBackwardBlocks = 3;

// Weights of a query head's tokens as fp32; `none` if there are none.
template <typename T>
class WeightColumn {
 public:
  __device__ WeightColumn(const TokenNumbers& weights, int first_head, float none)
      : token_stride_(static_cast<int>(weights.token_stride)), none_(none) {
    if (weights.data != nullptr) start_ = static_cast<const T*>(weights.data) + first_head;
  }
  __device__ float load(int token, int head) const {
    if (start_ == nullptr) return none_;
    return static_cast<float>(start_[std::int64_t{token} * token_stride_ + head]);
  }

 private:
  const T* start_ = nullptr;
  int token_stride_;
  float none_;
};

// The query heads that the lanes of a head process: of each of their tokens the group of one KV
// head, one after the other. The next one is loaded while the current one is computed. `grouped`
// false: each KV head has one query head.
template <typename T, int lanes, bool grouped>
class GroupHeads {
 public:
  struct Loaded {  // stays zero in idle lanes
    Pack<T> y{}, v{}, d_out{};
    float exclusive = 0, gate = 1;  // weights
  };
  const int group, offset;
  const WarpWork<T, lanes> work;
  const bool in_head;
  int token, head = 0;  // of the group
  Loaded loaded{};

  // d_out: null in forward.
  __device__ GroupHeads(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                        const HeadVectors& d_out)
      : group(grouped ? shape.heads / shape.kv_heads : 1),
        offset(HeadLane<T, lanes>().offset),
        work(shape.kv_heads, shape.tokens),
        in_head(work.head < shape.kv_heads && offset < shape.head_dim),
        token(work.token),
        tokens_(shape.tokens),
        y_(in.y, work.head * group, offset),
        v_(in.v, work.head, offset),
        d_out_(d_out, work.head * group, offset),
        exclusive_(in.exclusive, work.head * group, 0),
        gate_(in.gate, work.head * group, 1) {
    load();
  }
  __device__ bool ended() const { return token >= tokens_; }
  __device__ int query_head() const { return work.head * group + head; }
  __device__ void advance() {
    if (!grouped || ++head == group) head = 0, token += work.token_step;
    load();
  }

 private:
  __device__ void load() {
    if (!in_head || ended()) return;
    const int later = grouped ? head : 0;
    loaded = {y_.load_later_head(token, later), v_.load(token),
              d_out_.load_later_head(token, later), exclusive_.load(token, later),
              gate_.load(token, later)};
  }

  int tokens_;
  HeadColumn<T> y_, v_, d_out_;
  WeightColumn<T> exclusive_, gate_;
};

template <typename T, int lanes, bool grouped, bool copies>
__global__ void __launch_bounds__(kHeadThreads, kForwardBlocks)
    forward_kernel(ExclusiveShape shape, WeightedHeadsInputs in, T* __restrict__ out,
                   Fp8Copy rounded) {
  using P = Pack<T>;
  Fp8Writer<copies> copy(rounded);
  for (GroupHeads<T, lanes, grouped> at(shape, in, {}); !at.ended();) {
    const auto [y, v, unused, exclusive, gate] = at.loaded;
    const auto index = std::int64_t{at.token} * shape.heads + at.query_head();
    at.advance();
    const float scale = 1 / fmaxf(warp_sum<lanes>(dot(v, v)), kLeastSquare);
    const float share = tanhf(exclusive) * scale * warp_sum<lanes>(dot(y, v));
    float result[P::size];
#pragma unroll
    for (int i = 0; i < P::size; ++i) result[i] = gate * (y[i] - share * v[i]);
    const auto offset = index * shape.head_dim + at.offset;
    const P result_pack = P::rounded(result);
    if (at.in_head) {
      store_pack(out + offset, result_pack);
      copy.store(offset, result_pack);
    }
  }
  copy.end();
}

// With s = y·v, p = dout·v, m = max(‖v‖², least), a = tanh(w), the share c = a·s/m and the gate γ:
// dγ = y·dout − c·p, dc = −γ·p, dw = dc·(1 − a²)·s/m, ds = dc·a/m, dy = γ·dout + ds·v, and
// dv = Σ over the group of ds·y − c·γ·dout − 2·(dc·c/m)·v, without the last term below the least
// square. Attention's delta is y·dy, of the rounded dy that attention reads.
template <typename T, int lanes, bool grouped>
__global__ void __launch_bounds__(kHeadThreads, kBackwardBlocks)
    backward_kernel(ExclusiveShape shape, WeightedHeadsInputs in, HeadVectors d_out,
                    T* __restrict__ dy, T* __restrict__ dv, T* __restrict__ d_exclusive,
                    T* __restrict__ d_gate, float* __restrict__ delta) {
  using P = Pack<T>;
  float d_square = 0, dv_pack[P::size] = {};
  for (GroupHeads<T, lanes, grouped> at(shape, in, d_out); !at.ended();) {
    const auto [y, v, d, exclusive, gate] = at.loaded;
    const int token = at.token, head = at.query_head();
    at.advance();
    const float square = warp_sum<lanes>(dot(v, v));
    const float scale = 1 / fmaxf(square, kLeastSquare), weight = tanhf(exclusive);
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
    const P rounded = P::rounded(result);
    const float y_dy = delta == nullptr ? 0 : warp_sum<lanes>(dot(y, rounded));
    const auto index = std::int64_t{token} * shape.heads + head;
    if (at.in_head) store_pack(dy + index * shape.head_dim + at.offset, rounded);
    if (at.in_head && at.offset == 0) {
      if (d_gate != nullptr) d_gate[index] = static_cast<T>(d_gate_value);
      if (d_exclusive != nullptr)
        d_exclusive[index] = static_cast<T>(d_share * (1 - weight * weight) * scale * s);
      if (delta != nullptr) delta[std::int64_t{head} * shape.tokens + token] = y_dy;
    }
    if (grouped && at.head != 0) continue;  // the next head is of this group, too
    if (dv != nullptr) {
      if (square < kLeastSquare) d_square = 0;
#pragma unroll
      for (int i = 0; i < P::size; ++i) dv_pack[i] += 2 * d_square * v[i];
      const auto kv_index = std::int64_t{token} * shape.kv_heads + at.work.head;
      if (at.in_head) store_rounded(dv + kv_index * shape.head_dim + at.offset, dv_pack);
    }
    d_square = 0;
#pragma unroll
    for (int i = 0; i < P::size; ++i) dv_pack[i] = 0;
  }
}

int grid_size(const ExclusiveShape& shape, int lanes, int per_sm) {
  const auto count = std::int64_t{shape.tokens} * shape.kv_heads;
  const int per_block = kHeadThreads / lanes, per_warp = kWarp / lanes;
  const int blocks = blocks_for((count + per_block - 1) / per_block, per_sm);
  require_warps(blocks, (shape.kv_heads + per_warp - 1) / per_warp, "weighted_heads");
  return blocks;
}

// Calls op(T{}, lanes, whether KV heads have several query heads).
template <typename Op>
void dispatch_groups(const ExclusiveShape& shape, Dtype dtype, Op op) {
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    if (shape.heads == shape.kv_heads) return op(zero, lanes, std::false_type{});
    op(zero, lanes, std::true_type{});
  });
}

}  // namespace

void weighted_heads_forward(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                            const RoundedHeads& out, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_groups(shape, dtype, [&](auto zero, auto lanes, auto grouped) {
    using T = decltype(zero);
    dispatch_copies<T>(out.copy.values != nullptr, [&](auto copies) {
      forward_kernel<T, lanes(), grouped(), copies()>
          <<<grid_size(shape, lanes(), kForwardBlocks), kHeadThreads, 0, stream>>>(
              shape, in, static_cast<T*>(out.heads), out.copy);
    });
  });
  check_launch("weighted_heads_forward");
}

void weighted_heads_backward(const ExclusiveShape& shape, const WeightedHeadsInputs& in,
                             const HeadVectors& d_out, const WeightedHeadsGradients& out,
                             Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_groups(shape, dtype, [&](auto zero, auto lanes, auto grouped) {
    using T = decltype(zero);
    backward_kernel<T, lanes(), grouped()>
        <<<grid_size(shape, lanes(), kBackwardBlocks), kHeadThreads, 0, stream>>>(
            shape, in, d_out, static_cast<T*>(out.y), static_cast<T*>(out.v),
            static_cast<T*>(out.exclusive), static_cast<T*>(out.gate), out.delta);
  });
  check_launch("weighted_heads_backward");
}

}  // namespace tg::cuda
