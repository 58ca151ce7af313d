#pragma once
// RoPE of the packs that the lanes of a warp hold (head_vectors.cuh).
#include "ops/attention/kernels/head_vectors.cuh"

namespace tg::cuda {

// A token's position in its row.
__device__ inline unsigned position_of(const QkvShape& shape, int token) {
  return static_cast<unsigned>(token) % static_cast<unsigned>(shape.seq_len);
}

// cos and sin of one position for `size` pairs.
template <typename T, int size>
struct Angles {
  Pack<T, size> cos, sin;
};

// A lane's angles in every position; cos 1 and sin 0 if it rotates nothing.
template <typename T, int size>
class AngleColumn {
 public:
  // `offset`: of the lane's first pair in half_rope_dims.
  __device__ AngleColumn(const QkvShape& shape, const QkNormRopeInputs& in, int head, int offset,
                         bool is_rotated)
      : stride_(static_cast<unsigned>(shape.tables * shape.half_rope_dims)) {
    if (!is_rotated) return;
    const auto start = head % shape.tables * shape.half_rope_dims + offset;
    cos_ = static_cast<const T*>(in.cos) + start;
    sin_ = static_cast<const T*>(in.sin) + start;
  }

  __device__ Angles<T, size> load(unsigned position) const {
    if (cos_ != nullptr) {
      const auto offset = std::uint64_t{position} * stride_;
      return {load_pack<T, size>(cos_ + offset), load_pack<T, size>(sin_ + offset)};
    }
    float ones[size];
#pragma unroll
    for (int i = 0; i < size; ++i) ones[i] = 1;
    return {Pack<T, size>::rounded(ones), {}};
  }

 private:
  const T *cos_ = nullptr, *sin_ = nullptr;
  unsigned stride_;
};

// RoPE of one token for the elements that a thread holds, with angles from its column().
// `direction` of the constructors: 1 in forward, −1 for the inverse rotation in backward.
template <typename T, int lanes, bool interleaved>
struct Rotary;

// Half-split pairs, the same for every head. The other element of a pair is in lane `partner`.
template <typename T, int lanes>
struct Rotary<T, lanes, false> {
  using P = Pack<T>;
  using Loaded = Angles<T, P::size>;
  using Column = AngleColumn<T, P::size>;
  float cos[P::size], sin[P::size];
  int partner;  // lane of the warp

  __device__ static Column column(const QkvShape& shape, const QkNormRopeInputs& in, int head) {
    const int offset = HeadLane<T, lanes>().offset, half = shape.half_rope_dims;
    return {shape, in, head, offset < half ? offset : offset - half, offset < 2 * half};
  }
  __device__ Rotary(const QkvShape& shape, const Loaded& angles, float direction) {
    const HeadLane<T, lanes> lane;
    const int half_lanes = shape.half_rope_dims / P::size;
    const bool first = lane.index < half_lanes;
    const int distance = lane.index >= 2 * half_lanes ? 0 : first ? half_lanes : -half_lanes;
    partner = static_cast<int>(threadIdx.x % kWarp) + distance;
#pragma unroll
    for (int i = 0; i < P::size; ++i) {
      cos[i] = angles.cos[i];
      sin[i] = first ? direction * angles.sin[i] : -direction * angles.sin[i];
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
  using Loaded = Angles<T, pairs>;
  using Column = AngleColumn<T, pairs>;
  float cos[pairs], sin[pairs];

  __device__ static Column column(const QkvShape& shape, const QkNormRopeInputs& in, int head) {
    const int offset = HeadLane<T, lanes>().offset;
    return {shape, in, head, offset / 2, offset < 2 * shape.half_rope_dims};
  }
  __device__ Rotary(const QkvShape&, const Loaded& angles, float direction) {
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      cos[i] = angles.cos[i];
      sin[i] = direction * angles.sin[i];
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
