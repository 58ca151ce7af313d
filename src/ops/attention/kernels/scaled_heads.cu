// Heads times a weight of each token: a given one (scaled_heads), or a gate's (gated_values), whose
// inputs are the first channels of the normed input n and of the row itself. Forward reads x once
// and writes the output once. Backward reads x and the upstream gradient once and writes x's
// gradient once; the gate adds its gradient to n's gradient from other readers.
#include "ops/attention/kernels/head_gate.cuh"
#include "ops/attention/kernels/token_weights_kernel.h"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kBlocks = 16;              // per SM
constexpr int kGatedBackwardBlocks = 4;  // one wave: more CTAs would only add rows of partial sums
constexpr int kWindow = 2 * kValueGateWindow;

struct HeadFactors {
  TokenNumbers given;    // null: the gate's
  HeadGateTensors gate;  // x: n
};

// A gate with inputs [n[:kValueGateWindow], v[:kValueGateWindow]] of a token.
template <typename T, int lanes>
struct TokenValueGate : TokenGate<T, lanes> {
  using Gate = TokenGate<T, lanes>;
  __device__ TokenValueGate(const HeadFactors& factors, const HeadVectors& v, int token)
      : Gate(factors.gate, 1) {
    const T* const n_row =
        static_cast<const T*>(factors.gate.x) + token * factors.gate.token_stride;
    const T* const v_row = static_cast<const T*>(v.data) + token * v.token_stride;
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) {
      const int column = Gate::column(i);
      this->x[i] = 0;
      if (column < kValueGateWindow) this->x[i] = static_cast<float>(n_row[column]);
      if (column >= kValueGateWindow && column < kWindow)
        this->x[i] = static_cast<float>(v_row[column - kValueGateWindow]);
    }
  }
  // All lanes of the warp must call it.
  __device__ float factor(int head, bool has_head) const {
    return this->args.range * this->sigmoid(this->weights(head, has_head));
  }
};

// Replaces it for given weights.
template <typename T>
struct GivenWeights {
  const T* row;
  __device__ GivenWeights(const HeadFactors& factors, const HeadVectors&, int token)
      : row(static_cast<const T*>(factors.given.data) + token * factors.given.token_stride) {}
  __device__ float factor(int head, bool has_head) const {
    return has_head ? static_cast<float>(row[head]) : 0;
  }
};

template <typename T, int lanes, bool gated>
using Factors = std::conditional_t<gated, TokenValueGate<T, lanes>, GivenWeights<T>>;

template <typename T, int lanes, bool gated>
__global__ void __launch_bounds__(kHeadThreads)
    forward_kernel(ScaledHeadsShape shape, HeadVectors x, HeadFactors args, T* __restrict__ out) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    const Factors<T, lanes, gated> factors(args, x, token);
    for (int first = 0; first < shape.heads; first += lane.heads_per_warp) {
      const int head = first + lane.head;
      const bool has_head = head < shape.heads;
      const bool in_bounds = has_head && lane.offset < shape.head_dim;
      const P pack = load_head<T>(x, token, head, lane.offset, in_bounds);
      const float factor = factors.factor(head, has_head);
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) result[i] = factor * pack[i];
      const auto index = std::int64_t{token} * shape.heads + head;
      if (in_bounds) store_rounded(out + index * shape.head_dim + lane.offset, result);
    }
  }
}

template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    scaled_backward_kernel(ScaledHeadsShape shape, HeadVectors x, HeadFactors args,
                           HeadVectors d_out, TokenRows dx, T* __restrict__ d_weights) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    const GivenWeights<T> factors(args, x, token);
    T* const dx_row = static_cast<T*>(dx.data) + token * dx.token_stride;
    for (int first = 0; first < shape.heads; first += lane.heads_per_warp) {
      const int head = first + lane.head;
      const bool in_bounds = head < shape.heads && lane.offset < shape.head_dim;
      const P px = load_head<T>(x, token, head, lane.offset, in_bounds);
      const P pd = load_head<T>(d_out, token, head, lane.offset, in_bounds);
      const float factor = factors.factor(head, in_bounds);
      const float d_factor = warp_sum<lanes>(dot(px, pd));
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) result[i] = factor * pd[i];
      if (!in_bounds) continue;
      store_rounded(dx_row + head * shape.head_dim + lane.offset, result);
      if (lane.index == 0)
        d_weights[std::int64_t{token} * shape.heads + head] = static_cast<T>(d_factor);
    }
  }
}

// With the gate γ = range·σ(z): dv = γ·dout, dz = v·dout·γ·(1 − σ), and the first channels of v and
// n also get dz·W, summed over the heads. Head 0 has those of v and is stored last.
template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads, kGatedBackwardBlocks)
    gated_backward_kernel(ScaledHeadsShape shape, HeadVectors v, HeadFactors args,
                          HeadVectors d_out, ValueGateGradients gradients) {
  using P = Pack<T>;
  using Gate = TokenGate<T, lanes>;
  const HeadLane<T, lanes> lane;
  extern __shared__ float gate_sums[];  // [kHeadWarps, heads·kWindow]
  const int gate_columns = shape.heads * kWindow;
  float* const warp_sums = gate_sums + threadIdx.x / kWarp * gate_columns;
  for (int i = threadIdx.x; i < kHeadWarps * gate_columns; i += kHeadThreads) gate_sums[i] = 0;
  __syncthreads();
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    const TokenValueGate<T, lanes> gate(args, v, token);
    TokenGateGradient<T, lanes> d_gate;
    T* const dv_row = static_cast<T*>(gradients.v.data) + token * gradients.v.token_stride;
    float first_head[P::size] = {};
    for (int first = 0; first < shape.heads; first += lane.heads_per_warp) {
      const int head = first + lane.head;
      const bool has_head = head < shape.heads;
      const bool in_bounds = has_head && lane.offset < shape.head_dim;
      const P pv = load_head<T>(v, token, head, lane.offset, in_bounds);
      const P pd = load_head<T>(d_out, token, head, lane.offset, in_bounds);
      const auto weights = gate.weights(head, has_head);
      const float sigmoid = gate.sigmoid(weights), factor = args.gate.range * sigmoid;
      const float dz = warp_sum<lanes>(dot(pv, pd)) * factor * (1 - sigmoid);
      d_gate.add(gate, weights, dz, head, has_head, warp_sums);
      float result[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) {
        result[i] = factor * pd[i];
        if (first == 0) first_head[i] = result[i];
      }
      if (in_bounds && head > 0)
        store_rounded(dv_row + head * shape.head_dim + lane.offset, result);
    }
    float d_inputs[Gate::columns];
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) d_inputs[i] = d_gate.sum_of_heads(i);
#pragma unroll
    for (int j = 0; j < kValueGateWindow; ++j) {
      const int column = kValueGateWindow + j;
      const float d = __shfl_sync(0xffffffff, d_inputs[column / lanes], column % lanes);
      if (lane.index == j / P::size) first_head[j % P::size] += d;
    }
    if (lane.head == 0 && lane.offset < shape.head_dim)
      store_rounded(dv_row + lane.offset, first_head);
    if (gradients.n.data == nullptr) continue;
    T* const dn_row = static_cast<T*>(gradients.n.data) + token * gradients.n.token_stride;
#pragma unroll
    for (int i = 0; i < Gate::columns; ++i) {
      const int column = Gate::column(i);
      if (lane.head == 0 && column < kValueGateWindow)
        dn_row[column] = static_cast<T>(static_cast<float>(dn_row[column]) + d_inputs[i]);
    }
  }
  write_block_sums(gate_sums, gate_columns, gradients.partials);
}

HeadFactors factors_of(const ValueGate& gate) {
  return {.given = {},
          .gate = {.x = gate.n.data,
                   .token_stride = gate.n.token_stride,
                   .row_scale = nullptr,
                   .weight = gate.weight,
                   .window = kWindow,
                   .scale = 1,
                   .range = 2}};
}

template <bool gated>
void forward(const ScaledHeadsShape& shape, const HeadVectors& x, const HeadFactors& factors,
             void* out, Dtype dtype, Stream stream) {
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    forward_kernel<T, lanes(), gated>
        <<<token_blocks(shape.tokens, kBlocks), kHeadThreads, 0, stream>>>(shape, x, factors,
                                                                           static_cast<T*>(out));
  });
}

}  // namespace

void scaled_heads_forward(const ScaledHeadsShape& shape, const HeadVectors& x,
                          const TokenNumbers& weights, void* out, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  forward<false>(shape, x, {.given = weights, .gate = {}}, out, dtype, stream);
  check_launch("scaled_heads_forward");
}

void gated_values_forward(const ScaledHeadsShape& shape, const HeadVectors& v,
                          const ValueGate& gate, void* out, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  forward<true>(shape, v, factors_of(gate), out, dtype, stream);
  check_launch("gated_values_forward");
}

void scaled_heads_backward(const ScaledHeadsShape& shape, const HeadVectors& x,
                           const TokenNumbers& weights, const HeadVectors& d_out,
                           const TokenRows& dx, void* d_weights, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  const HeadFactors factors{.given = weights, .gate = {}};
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    scaled_backward_kernel<T, lanes()>
        <<<token_blocks(shape.tokens, kBlocks), kHeadThreads, 0, stream>>>(
            shape, x, factors, d_out, dx, static_cast<T*>(d_weights));
  });
  check_launch("scaled_heads_backward");
}

void gated_values_backward(const ScaledHeadsShape& shape, const HeadVectors& v,
                           const ValueGate& gate, const HeadVectors& d_out,
                           ValueGateGradients gradients, Dtype dtype, const Workspace& workspace,
                           Stream stream) {
  if (shape.tokens == 0) return;
  const int columns = shape.heads * kWindow;
  const int blocks = token_blocks(shape.tokens, kGatedBackwardBlocks);
  const auto shared = kHeadWarps * columns * sizeof(float);
  gradients.partials = workspace(std::int64_t{blocks} * columns);
  const auto factors = factors_of(gate);
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    gated_backward_kernel<T, lanes()>
        <<<blocks, kHeadThreads, shared, stream>>>(shape, v, factors, d_out, gradients);
  });
  check_launch("gated_values_backward");
  sum_rows(gradients.partials, blocks, columns, gradients.weight, stream);
}

}  // namespace tg::cuda
