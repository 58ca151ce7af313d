#pragma once
// Head gates (HeadGateTensors), computed by the lanes that hold a head: each lane holds every
// lanes-th column of the window.
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/attention/kernels/head_vectors.cuh"

namespace tg::cuda {

template <typename T, int lanes>
struct TokenGate {
  static constexpr int columns = (kMaxGateWindow + lanes - 1) / lanes;  // per lane
  const HeadGateTensors args;
  float x[columns];  // of the token, times row_scale
  float row_scale;

  __device__ TokenGate(const HeadGateTensors& gate, int token) : args(gate) {
    row_scale = gate.row_scale == nullptr ? 1 : gate.row_scale[token];
    const T* const row = static_cast<const T*>(gate.x) + token * gate.token_stride;
#pragma unroll
    for (int i = 0; i < columns; ++i)
      x[i] = column(i) < gate.window ? static_cast<float>(row[column(i)]) * row_scale : 0;
  }
  // Leaves x to the caller.
  __device__ TokenGate(const HeadGateTensors& gate, float scale) : args(gate), row_scale(scale) {}

  __device__ static int column(int i) {
    return static_cast<int>(threadIdx.x % lanes) + i * lanes;
  }

  // A head's weights in this lane; zeros where `in_bounds` is false.
  struct Weights {
    float values[columns];
  };
  __device__ Weights weights(int head, bool in_bounds) const {
    Weights loaded;
#pragma unroll
    for (int i = 0; i < columns; ++i)
      loaded.values[i] =
          in_bounds && column(i) < args.window ? args.weight[head * args.window + column(i)] : 0;
    return loaded;
  }
  // Returns a head's σ. All lanes of the warp must call it.
  __device__ float sigmoid(const Weights& weights) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < columns; ++i) sum += weights.values[i] * x[i];
    return 1 / (1 + expf(-args.scale * warp_sum<lanes>(sum)));
  }
};

// Accumulates gate gradients: a token's dx in registers, over its heads, and the weights' gradients
// in shared memory, over a warp's tokens.
template <typename T, int lanes>
struct TokenGateGradient {
  using Gate = TokenGate<T, lanes>;
  float x[Gate::columns] = {};

  // `dz`: gradient of row_scale·Σ_j weight·x. `sums` [heads, window]: this warp's sums.
  __device__ void add(const Gate& gate, const typename Gate::Weights& weights, float dz, int head,
                      bool in_bounds, float* sums) {
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) {
      const int column = Gate::column(i);
      x[i] += dz * weights.values[i];
      if (in_bounds && column < gate.args.window)
        sums[head * gate.args.window + column] += dz * gate.x[i];
    }
  }
  // Returns dx of this lane's column i, summed over the warp's heads. All lanes of the warp must
  // call it.
  __device__ float sum_of_heads(int i) const {
    float sum = x[i];
#pragma unroll
    for (int distance = lanes; distance < kWarp; distance *= 2)
      sum += __shfl_xor_sync(0xffffffff, sum, distance);
    return sum;
  }
  // Stores dx. All lanes of the warp must call it.
  __device__ void store(const Gate& gate, int token, float* to) const {
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) {
      const float sum = sum_of_heads(i);
      const int column = Gate::column(i);
      if (threadIdx.x % kWarp < lanes && column < gate.args.window)
        to[std::int64_t{token} * gate.args.window + column] = sum * gate.row_scale;
    }
  }
};

// Adds the warps' sums of the gate's weights [kHeadWarps, columns] in warp order and writes them to
// the CTA's row of `partials`.
__device__ inline void write_block_sums(const float* sums, int columns, float* partials) {
  __syncthreads();
  for (int column = threadIdx.x; column < columns; column += kHeadThreads) {
    float sum = 0;
    for (int warp = 0; warp < kHeadWarps; ++warp) sum += sums[warp * columns + column];
    partials[std::int64_t{blockIdx.x} * columns + column] = sum;
  }
}

}  // namespace tg::cuda
