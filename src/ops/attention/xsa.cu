// Exclusive attention. Forward: y and v read once, one write of y's size. Backward: y, v and the
// gradient read once, both gradients written. The heads of a group follow each other in the threads
// that hold their value.
#include "ops/attention/head_vectors.cuh"
#include "ops/attention/xsa_kernel.h"

namespace tg::cuda {

namespace {

constexpr float kSmallestNorm = 1e-12f;

// A value's pack, divided by max(‖v‖, kSmallestNorm).
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
  // The whole head's; the whole warp takes part.
  __device__ float along(const Pack<T>& x) const {
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
  const Seat<T, lanes> seat;
  const int group = shape.heads / shape.kv_heads;
  for (int token = grid_warp(); token < shape.tokens; token += grid_warps()) {
    for (int first = 0; first < shape.kv_heads; first += seat.heads_at_once) {
      const int kv_head = first + seat.head;
      const bool there = kv_head < shape.kv_heads && seat.offset < shape.head_dim;
      const UnitValue<T, lanes> unit(load_head<T>(v, token, kv_head, seat.offset, there));
#pragma unroll 2
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const P before = load_head<T>(y, token, head, seat.offset, there);
        const float share = unit.along(before);
        float after[P::size];
#pragma unroll
        for (int i = 0; i < P::size; ++i) after[i] = before[i] - share * unit.direction[i];
        const auto place = std::int64_t{token} * shape.heads + head;
        if (there) store_rounded(out + place * shape.head_dim + seat.offset, after);
      }
    }
  }
}

// With s = y·v̂ and g = dout·v̂: dy = dout − g·v̂, dv̂ = −Σ over the group of (s·dout + g·y), and
// through the division dv = (dv̂ − v̂(v̂·dv̂)) / ‖v‖, without the second term below the smallest norm.
template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    backward_kernel(ExclusiveShape shape, HeadVectors y, HeadVectors v, HeadVectors d_out,
                    T* __restrict__ dy, T* __restrict__ dv) {
  using P = Pack<T>;
  const Seat<T, lanes> seat;
  const int group = shape.heads / shape.kv_heads;
  for (int token = grid_warp(); token < shape.tokens; token += grid_warps()) {
    for (int first = 0; first < shape.kv_heads; first += seat.heads_at_once) {
      const int kv_head = first + seat.head;
      const bool there = kv_head < shape.kv_heads && seat.offset < shape.head_dim;
      const UnitValue<T, lanes> unit(load_head<T>(v, token, kv_head, seat.offset, there));
      float d_unit[P::size] = {};
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const P py = load_head<T>(y, token, head, seat.offset, there);
        const P pd = load_head<T>(d_out, token, head, seat.offset, there);
        const float s = unit.along(py), g = unit.along(pd);
        float result[P::size];
#pragma unroll
        for (int i = 0; i < P::size; ++i) {
          result[i] = pd[i] - g * unit.direction[i];
          d_unit[i] -= s * pd[i] + g * py[i];
        }
        const auto place = std::int64_t{token} * shape.heads + head;
        if (there) store_rounded(dy + place * shape.head_dim + seat.offset, result);
      }
      float along = 0;
#pragma unroll
      for (int i = 0; i < P::size; ++i) along += d_unit[i] * unit.direction[i];
      along = warp_sum<lanes>(along);
      if (unit.norm < kSmallestNorm) along = 0;
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i)
        result[i] = (d_unit[i] - along * unit.direction[i]) * unit.scale;
      const auto place = std::int64_t{token} * shape.kv_heads + kv_head;
      if (there) store_rounded(dv + place * shape.head_dim + seat.offset, result);
    }
  }
}

int blocks_of(const ExclusiveShape& shape) {
  return blocks_for((shape.tokens + kHeadWarps - 1) / kHeadWarps, 16);
}

}  // namespace

void exclusive_attention_forward(const ExclusiveShape& shape, const HeadVectors& y,
                                 const HeadVectors& v, void* out, Float number, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(number, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    forward_kernel<T, lanes()>
        <<<blocks_of(shape), kHeadThreads, 0, stream>>>(shape, y, v, static_cast<T*>(out));
  });
  check_launch("exclusive_attention_forward");
}

void exclusive_attention_backward(const ExclusiveShape& shape, const HeadVectors& y,
                                  const HeadVectors& v, const HeadVectors& d_out, void* dy,
                                  void* dv, Float number, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(number, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    backward_kernel<T, lanes()><<<blocks_of(shape), kHeadThreads, 0, stream>>>(
        shape, y, v, d_out, static_cast<T*>(dy), static_cast<T*>(dv));
  });
  check_launch("exclusive_attention_backward");
}

}  // namespace tg::cuda
