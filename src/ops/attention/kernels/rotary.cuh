#pragma once
// RoPE of the packs that the lanes of a warp hold (head_vectors.cuh).
#include "ops/attention/kernels/head_vectors.cuh"

namespace tg::cuda {

// A token's position in its row.
__device__ inline unsigned position_of(const QkvShape& shape, int token) {
  return static_cast<unsigned>(token) % static_cast<unsigned>(shape.seq_len);
}

// Offset of the angles of a token and head in QkNormRopeInputs::cos and sin.
__device__ inline std::int64_t angles_offset(const QkvShape& shape, int token, int head) {
  const auto position = position_of(shape, token);
  const auto table = static_cast<unsigned>(head) % static_cast<unsigned>(shape.tables);
  return (std::int64_t{position} * shape.tables + table) * shape.half_rope_dims;
}

// RoPE of one token for the elements that a thread holds. Lanes beyond the rotated part have cos 1
// and sin 0. `direction` of the constructors: 1 in forward, −1 for the inverse rotation in
// backward.
template <typename T, int lanes, bool interleaved>
struct Rotary;

// Half-split pairs, the same for every head. The other element of a pair is in lane `partner`.
template <typename T, int lanes>
struct Rotary<T, lanes, false> {
  using P = Pack<T>;
  float cos[P::size], sin[P::size];
  int partner;  // lane of the warp

  __device__ Rotary(const QkvShape& shape, const QkNormRopeInputs& in, int token, int,
                    float direction) {
    const HeadLane<T, lanes> lane;
    const int half = shape.half_rope_dims, half_lanes = half / P::size;
    const bool first = lane.index < half_lanes;
    const bool is_rotated = lane.index < 2 * half_lanes;
    const int distance = !is_rotated ? 0 : first ? half_lanes : -half_lanes;
    partner = static_cast<int>(threadIdx.x % kWarp) + distance;
    P c{}, s{};
    if (is_rotated) {
      const auto position = position_of(shape, token);
      const auto index = std::int64_t{position} * half + lane.offset - (first ? 0 : half);
      c = load_pack(static_cast<const T*>(in.cos) + index);
      s = load_pack(static_cast<const T*>(in.sin) + index);
    }
#pragma unroll
    for (int i = 0; i < P::size; ++i) {
      cos[i] = is_rotated ? c[i] : 1;
      sin[i] = first ? direction * s[i] : -direction * s[i];
    }
  }

  // All lanes of the warp must call rotate().
  __device__ void rotate(const P& x, float (&rotated)[P::size]) const {
    P other = x;
    for (auto& word : other.words) word = __shfl_sync(0xffffffff, word, partner);
#pragma unroll
    for (int i = 0; i < P::size; ++i) rotated[i] = x[i] * cos[i] + other[i] * sin[i];
  }
  __device__ void rotate(float (&x)[P::size]) const {
#pragma unroll
    for (int i = 0; i < P::size; ++i)
      x[i] = x[i] * cos[i] + __shfl_sync(0xffffffff, x[i], partner) * sin[i];
  }
};

// Interleaved pairs, of which a lane holds both elements, by the table of `head`.
template <typename T, int lanes>
struct Rotary<T, lanes, true> {
  static constexpr int size = Pack<T>::size, pairs = size / 2;
  float cos[pairs], sin[pairs];

  __device__ Rotary(const QkvShape& shape, const QkNormRopeInputs& in, int token, int head,
                    float direction) {
    const HeadLane<T, lanes> lane;
    const bool is_rotated = lane.offset < 2 * shape.half_rope_dims;
    Pack<T, pairs> c{}, s{};
    if (is_rotated) {
      const auto index = angles_offset(shape, token, head) + lane.offset / 2;
      c = load_pack<T, pairs>(static_cast<const T*>(in.cos) + index);
      s = load_pack<T, pairs>(static_cast<const T*>(in.sin) + index);
    }
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      cos[i] = is_rotated ? c[i] : 1;
      sin[i] = direction * s[i];
    }
  }

  // x: a Pack<T> or floats.
  template <typename X>
  __device__ void rotate(const X& x, float (&rotated)[size]) const {
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const float first = x[2 * i], second = x[2 * i + 1];
      rotated[2 * i] = first * cos[i] + second * sin[i];
      rotated[2 * i + 1] = second * cos[i] - first * sin[i];
    }
  }
  __device__ void rotate(float (&x)[size]) const {
    rotate(x, x);
  }
};

}  // namespace tg::cuda
