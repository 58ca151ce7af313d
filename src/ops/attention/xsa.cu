// Exclusive attention. Forward reads y and v once and writes once, in y's size. Backward reads y, v
// and the upstream gradient once and writes both gradients. The lanes that hold a KV head loop over
// the query heads of its group.
#include "ops/attention/head_vectors.cuh"
#include "ops/attention/xsa_kernel.h"

namespace tg::cuda {

namespace {

constexpr float kSmallestNorm = 1e-12f;

// A lane's pack of v̂ = v / max(‖v‖, kSmallestNorm).
template <typename T, int lanes>
struct UnitValue {
  float direction[Pack<T>::size];
  float norm, scale;

  __device__ explicit UnitValue(const Pack<T>& v) {
    norm = sqrtf(warp_sum<lanes>(dot(v, v)));
    scale = 1 / fmaxf(norm, kSmallestNorm);
#pragma unroll
    for (int i = 0; i < Pack<T>::size; ++i) direction[i] = v[i] * scale;
  }
  // x·v̂ over the whole head. All lanes of the warp must call it.
  __device__ float project(const Pack<T>& x) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Pack<T>::size; ++i) sum += x[i] * direction[i];
    return warp_sum<lanes>(sum);
  }
};

template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    forward_kernel(ExclusiveShape shape, HeadVectors y, HeadVectors v, T* __restrict__ out) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  const int group = shape.heads / shape.kv_heads;
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    for (int first = 0; first < shape.kv_heads; first += lane.heads_per_warp) {
      const int kv_head = first + lane.head;
      const bool in_bounds = kv_head < shape.kv_heads && lane.offset < shape.head_dim;
      const UnitValue<T, lanes> unit(load_head<T>(v, token, kv_head, lane.offset, in_bounds));
#pragma unroll 2
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const P head_y = load_head<T>(y, token, head, lane.offset, in_bounds);
        const float projection = unit.project(head_y);
        float out_pack[P::size];
#pragma unroll
        for (int i = 0; i < P::size; ++i) out_pack[i] = head_y[i] - projection * unit.direction[i];
        const auto index = std::int64_t{token} * shape.heads + head;
        if (in_bounds) store_rounded(out + index * shape.head_dim + lane.offset, out_pack);
      }
    }
  }
}

// That of a token's first head; null where it is not wanted.
__device__ float* delta_of(const RowDelta& row_delta, int heads, int token) {
  if (row_delta.delta == nullptr) return nullptr;
  const auto sequence = token / row_delta.seq_len;
  return row_delta.delta + std::int64_t{sequence} * heads * row_delta.padded_len +
         token % row_delta.seq_len;
}

// With s = y·v̂ and g = dout·v̂: dy = dout − g·v̂, so that y·dy = y·dout − s·g; dv̂ = −Σ over the
// group of (s·dout + g·y), and through the division dv = (dv̂ − v̂(v̂·dv̂)) / ‖v‖, without the second
// term below the smallest norm.
template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    backward_kernel(ExclusiveShape shape, HeadVectors y, HeadVectors v, HeadVectors d_out,
                    T* __restrict__ dy, T* __restrict__ dv, RowDelta row_delta) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  const int group = shape.heads / shape.kv_heads;
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    float* const delta = delta_of(row_delta, shape.heads, token);
    for (int first = 0; first < shape.kv_heads; first += lane.heads_per_warp) {
      const int kv_head = first + lane.head;
      const bool in_bounds = kv_head < shape.kv_heads && lane.offset < shape.head_dim;
      const UnitValue<T, lanes> unit(load_head<T>(v, token, kv_head, lane.offset, in_bounds));
      float d_unit[P::size] = {};
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const P py = load_head<T>(y, token, head, lane.offset, in_bounds);
        const P pd = load_head<T>(d_out, token, head, lane.offset, in_bounds);
        const float s = unit.project(py), g = unit.project(pd);
        if (delta != nullptr) {
          const float y_dy = warp_sum<lanes>(dot(py, pd)) - s * g;
          if (in_bounds && lane.index == 0) delta[std::int64_t{head} * row_delta.padded_len] = y_dy;
        }
        float result[P::size];
#pragma unroll
        for (int i = 0; i < P::size; ++i) {
          result[i] = pd[i] - g * unit.direction[i];
          d_unit[i] -= s * pd[i] + g * py[i];
        }
        const auto index = std::int64_t{token} * shape.heads + head;
        if (in_bounds) store_rounded(dy + index * shape.head_dim + lane.offset, result);
      }
      float projection = 0;
#pragma unroll
      for (int i = 0; i < P::size; ++i) projection += d_unit[i] * unit.direction[i];
      projection = warp_sum<lanes>(projection);
      if (unit.norm < kSmallestNorm) projection = 0;
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i)
        result[i] = (d_unit[i] - projection * unit.direction[i]) * unit.scale;
      const auto index = std::int64_t{token} * shape.kv_heads + kv_head;
      if (in_bounds) store_rounded(dv + index * shape.head_dim + lane.offset, result);
    }
  }
}

int blocks_of(const ExclusiveShape& shape) {
  return blocks_for((shape.tokens + kHeadWarps - 1) / kHeadWarps, 16);
}

}  // namespace

void exclusive_attention_forward(const ExclusiveShape& shape, const HeadVectors& y,
                                 const HeadVectors& v, void* out, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    forward_kernel<T, lanes()>
        <<<blocks_of(shape), kHeadThreads, 0, stream>>>(shape, y, v, static_cast<T*>(out));
  });
  check_launch("exclusive_attention_forward");
}

void exclusive_attention_backward(const ExclusiveShape& shape, const HeadVectors& y,
                                  const HeadVectors& v, const HeadVectors& d_out, void* dy,
                                  void* dv, const RowDelta& row_delta, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    backward_kernel<T, lanes()><<<blocks_of(shape), kHeadThreads, 0, stream>>>(
        shape, y, v, d_out, static_cast<T*>(dy), static_cast<T*>(dv), row_delta);
  });
  check_launch("exclusive_attention_backward");
}

}  // namespace tg::cuda
