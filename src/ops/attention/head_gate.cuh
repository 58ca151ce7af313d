#pragma once
// The gate of a head (head_gate_kernel.h) in the lanes that hold it: each has every lanes-th column
// of the window.
#include "ops/attention/head_gate_kernel.h"
#include "ops/attention/head_vectors.cuh"

namespace tg::cuda {

template <typename T, int lanes>
struct TokenGate {
  static constexpr int columns = (kMaxGateWindow + lanes - 1) / lanes;  // of a lane
  const HeadGateTensors of;
  float x[columns];  // of the token, scaled
  float row_scale;

  __device__ TokenGate(const HeadGateTensors& gate, int token) : of(gate) {
    row_scale = gate.row_scale == nullptr ? 1 : gate.row_scale[token];
    const T* const row = static_cast<const T*>(gate.x) + token * gate.token_stride;
#pragma unroll
    for (int i = 0; i < columns; ++i)
      x[i] = column(i) < gate.window ? static_cast<float>(row[column(i)]) * row_scale : 0;
  }
  __device__ static int column(int i) {
    return static_cast<int>(threadIdx.x % lanes) + i * lanes;
  }

  // A head's weights in this lane; zeros where `in_bounds` is false.
  struct Weights {
    float of_column[columns];
  };
  __device__ Weights weights(int head, bool in_bounds) const {
    Weights loaded;
#pragma unroll
    for (int i = 0; i < columns; ++i)
      loaded.of_column[i] =
          in_bounds && column(i) < of.window ? of.weight[head * of.window + column(i)] : 0;
    return loaded;
  }
  // σ of a head. All lanes of the warp must call it.
  __device__ float sigmoid(const Weights& weights) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < columns; ++i) sum += weights.of_column[i] * x[i];
    return 1 / (1 + expf(-of.scale * warp_sum<lanes>(sum)));
  }
};

// What backward adds up of them: the gradient of a token's x in registers, over its heads, and that
// of the weights in shared memory, over the tokens of a warp.
template <typename T, int lanes>
struct TokenGateGradient {
  using Gate = TokenGate<T, lanes>;
  float x[Gate::columns] = {};

  // dz: of row_scale·Σ_j weight·x. `sums` [heads, window]: the warp's own.
  __device__ void add(const Gate& gate, const typename Gate::Weights& weights, float dz, int head,
                      bool in_bounds, float* sums) {
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) {
      const int column = Gate::column(i);
      x[i] += dz * weights.of_column[i];
      if (in_bounds && column < gate.of.window)
        sums[head * gate.of.window + column] += dz * gate.x[i];
    }
  }
  // Sums over the heads that the warp holds. All its lanes must call it.
  __device__ void store(const Gate& gate, int token, float* to) const {
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) {
      float sum = x[i];
#pragma unroll
      for (int distance = lanes; distance < kWarp; distance *= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, distance);
      const int column = Gate::column(i);
      if (threadIdx.x % kWarp < lanes && column < gate.of.window)
        to[std::int64_t{token} * gate.of.window + column] = sum * gate.row_scale;
    }
  }
};

}  // namespace tg::cuda
