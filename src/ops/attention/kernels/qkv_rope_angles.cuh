#pragma once
// RoPE in the epilogue of the QKV projection's GEMM. Of a head and token, a consumer thread's
// accumulators [4·j] and [4·j + 1] are columns 8·j + `column` and 8·j + `column` + 1: the thread
// holds both elements of every pair.
#include "ops/attention/kernels/rotary.cuh"
#include "ops/kernels.cuh"

namespace tg::cuda {

template <typename T>
struct AngleTables {
  const T *cos, *sin;  // QkNormRopeInputs
};

__device__ inline void rotate_pair(float& first, float& second, float cos, float sin) {
  const float rotated = first * cos + second * sin;
  second = second * cos - first * sin;
  first = rotated;
}

// cos and sin of a token for this thread's column pairs, as packed pairs of T. `half_chunks`:
// number of 8-column chunks in half of a head's rotated part.
template <typename T, int half_chunks>
struct HalfSplitAngles {
  unsigned cos[half_chunks], sin[half_chunks];

  __device__ static HalfSplitAngles load(const AngleTables<T>& tables, const QkvShape& shape,
                                         int token, int, int column) {
    const auto position = position_of(shape, token);
    const auto offset = position * (8 * half_chunks) + column;
    HalfSplitAngles loaded;
#pragma unroll
    for (int j = 0; j < half_chunks; ++j) {
      loaded.cos[j] = *reinterpret_cast<const unsigned*>(tables.cos + offset + 8 * j);
      loaded.sin[j] = *reinterpret_cast<const unsigned*>(tables.sin + offset + 8 * j);
    }
    return loaded;
  }
  __device__ void rotate(float* head) const {
#pragma unroll
    for (int j = 0; j < half_chunks; ++j) {
      float *const first = head + 4 * j, *const second = first + 4 * half_chunks;
      rotate_pair(first[0], second[0], low_of<T>(cos[j]), low_of<T>(sin[j]));
      rotate_pair(first[1], second[1], high_of<T>(cos[j]), high_of<T>(sin[j]));
    }
  }
};

// cos and sin of interleaved pairs, in the table of `head`. `chunks`: number of 8-column chunks in
// a head's rotated part.
template <typename T, int chunks>
struct InterleavedAngles {
  unsigned angles[chunks];  // cos in the low half, sin in the high half

  __device__ static InterleavedAngles load(const AngleTables<T>& tables, const QkvShape& shape,
                                           int token, int head, int column) {
    const auto position = position_of(shape, token);
    const auto table = static_cast<unsigned>(head) % static_cast<unsigned>(shape.tables);
    const auto offset = (position * shape.tables + table) * (4 * chunks) + column / 2;
    const auto* const cos = reinterpret_cast<const unsigned short*>(tables.cos) + offset;
    const auto* const sin = reinterpret_cast<const unsigned short*>(tables.sin) + offset;
    InterleavedAngles loaded;
#pragma unroll
    for (int j = 0; j < chunks; ++j)
      loaded.angles[j] = cos[4 * j] | static_cast<unsigned>(sin[4 * j]) << 16;
    return loaded;
  }
  __device__ void rotate(float* head) const {
#pragma unroll
    for (int j = 0; j < chunks; ++j)
      rotate_pair(head[4 * j], head[4 * j + 1], low_of<T>(angles[j]), high_of<T>(angles[j]));
  }
};

}  // namespace tg::cuda
