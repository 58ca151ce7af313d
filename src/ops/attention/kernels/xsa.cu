// Exclusive attention, or without v the gate alone. Forward reads y and v once and writes the
// output once. Backward reads y, v and the upstream gradient once and writes both gradients. The
// lanes that hold a KV head loop over the query heads of its group. Both passes compute the gate
// from the first columns of its input.
#include <type_traits>

#include "ops/attention/kernels/attention_kernel.h"
#include "ops/attention/kernels/head_gate.cuh"
#include "ops/gemm/fp8.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr float kSmallestNorm = 1e-12f;
// Per SM, one wave: more CTAs would only add rows of partial sums.
constexpr int kGatedBackwardBlocks = 4;

// A lane's pack of v̂ = v / max(‖v‖, kSmallestNorm); zeros without v.
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
  // Returns x·v̂ over the whole head. All lanes of the warp must call it.
  __device__ float project(const Pack<T>& x) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < Pack<T>::size; ++i) sum += x[i] * direction[i];
    return warp_sum<lanes>(sum);
  }
};

// Replaces TokenGate if there is no gate.
struct NoGate {
  __device__ NoGate(const HeadGateTensors&, int) {}
};

template <typename T, int lanes, bool gated, bool copies>
__global__ void __launch_bounds__(kHeadThreads)
    forward_kernel(ExclusiveShape shape, ExclusiveInputs in, T* __restrict__ out, Fp8Copy rounded) {
  using P = Pack<T>;
  Fp8Writer<copies> copy(rounded);
  const HeadLane<T, lanes> lane;
  const int group = shape.heads / shape.kv_heads;
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    const std::conditional_t<gated, TokenGate<T, lanes>, NoGate> gate(in.gate, token);
    for (int first = 0; first < shape.kv_heads; first += lane.heads_per_warp) {
      const int kv_head = first + lane.head;
      const bool has_head = kv_head < shape.kv_heads;
      const bool in_bounds = has_head && lane.offset < shape.head_dim;
      const UnitValue<T, lanes> unit(load_head<T>(in.v, token, kv_head, lane.offset, in_bounds));
#pragma unroll 2
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const P head_y = load_head<T>(in.y, token, head, lane.offset, in_bounds);
        float gate_value = 1;
        if constexpr (gated)
          gate_value = in.gate.range * gate.sigmoid(gate.weights(head, has_head));
        const float projection = unit.project(head_y);
        float out_pack[P::size];
#pragma unroll
        for (int i = 0; i < P::size; ++i)
          out_pack[i] = gate_value * (head_y[i] - projection * unit.direction[i]);
        const auto index = std::int64_t{token} * shape.heads + head;
        const auto offset = index * shape.head_dim + lane.offset;
        const P result = P::rounded(out_pack);
        if (in_bounds) {
          store_pack(out + offset, result);
          copy.store(offset, result);
        }
      }
    }
  }
  copy.end();
}

// Returns the address of delta of a token's head 0; null if delta is not computed.
__device__ float* token_delta(const RowDelta& row_delta, int heads, int token) {
  if (row_delta.delta == nullptr) return nullptr;
  const auto sequence = token / row_delta.seq_len;
  return row_delta.delta + std::int64_t{sequence} * heads * row_delta.padded_len +
         token % row_delta.seq_len;
}

// With s = y·v̂, g = dout·v̂ and the gate γ (1 without): dy = γ·(dout − g·v̂), dγ = y·dout − s·g, so
// that y·dy = γ·dγ; dv̂ = −Σ over the group of γ·(s·dout + g·y), and through the division
// dv = (dv̂ − v̂(v̂·dv̂)) / ‖v‖, without the second term below the smallest norm.
template <typename T, int lanes, bool gated>
__global__ void __launch_bounds__(kHeadThreads, gated ? kGatedBackwardBlocks : 0)
    backward_kernel(ExclusiveShape shape, ExclusiveInputs in, HeadVectors d_out, T* __restrict__ dy,
                    T* __restrict__ dv, RowDelta row_delta, HeadGateGradients gate_gradients) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  const int group = shape.heads / shape.kv_heads;
  extern __shared__ float gate_sums[];  // [kHeadWarps, heads·window]
  const int gate_columns = gated ? shape.heads * in.gate.window : 0;
  float* const warp_sums = gate_sums + threadIdx.x / kWarp * gate_columns;
  if constexpr (gated) {
    for (int i = threadIdx.x; i < kHeadWarps * gate_columns; i += kHeadThreads) gate_sums[i] = 0;
    __syncthreads();
  }
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    float* const delta = token_delta(row_delta, shape.heads, token);
    const std::conditional_t<gated, TokenGate<T, lanes>, NoGate> gate(in.gate, token);
    [[maybe_unused]] TokenGateGradient<T, lanes> d_gate;
    for (int first = 0; first < shape.kv_heads; first += lane.heads_per_warp) {
      const int kv_head = first + lane.head;
      const bool has_head = kv_head < shape.kv_heads;
      const bool in_bounds = has_head && lane.offset < shape.head_dim;
      const UnitValue<T, lanes> unit(load_head<T>(in.v, token, kv_head, lane.offset, in_bounds));
      float d_unit[P::size] = {};
      for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const P py = load_head<T>(in.y, token, head, lane.offset, in_bounds);
        const P pd = load_head<T>(d_out, token, head, lane.offset, in_bounds);
        const float s = unit.project(py), g = unit.project(pd);
        float gate_value = 1;
        const auto d_gate_value = [&] { return warp_sum<lanes>(dot(py, pd)) - s * g; };
        const auto store_delta = [&](float y_dy) {
          if (in_bounds && lane.index == 0) delta[std::int64_t{head} * row_delta.padded_len] = y_dy;
        };
        if constexpr (gated) {
          const auto weights = gate.weights(head, has_head);
          const float sigmoid = gate.sigmoid(weights), d = d_gate_value();
          gate_value = in.gate.range * sigmoid;
          d_gate.add(gate, weights, d * in.gate.scale * gate_value * (1 - sigmoid), head, has_head,
                     warp_sums);
          if (delta != nullptr) store_delta(gate_value * d);
        } else if (delta != nullptr) {
          store_delta(d_gate_value());
        }
        float result[P::size];
#pragma unroll
        for (int i = 0; i < P::size; ++i) {
          result[i] = gate_value * (pd[i] - g * unit.direction[i]);
          d_unit[i] -= gate_value * (s * pd[i] + g * py[i]);
        }
        const auto index = std::int64_t{token} * shape.heads + head;
        if (in_bounds) store_rounded(dy + index * shape.head_dim + lane.offset, result);
      }
      if (dv == nullptr) continue;
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
    if constexpr (gated) d_gate.store(gate, token, gate_gradients.x);
  }
  if constexpr (gated) write_block_sums(gate_sums, gate_columns, gate_gradients.partials);
}

constexpr int kBlocks = 16;  // per SM

// Calls op(T{}, lanes, whether there is a gate).
template <typename Op>
void dispatch_gated(Dtype dtype, int head_dim, const HeadGateTensors& gate, Op op) {
  dispatch_heads(dtype, head_dim, [&](auto zero, auto lanes) {
    if (gate.x == nullptr) return op(zero, lanes, std::false_type{});
    op(zero, lanes, std::true_type{});
  });
}

}  // namespace

void exclusive_attention_forward(const ExclusiveShape& shape, const ExclusiveInputs& in,
                                 const RoundedHeads& out, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_gated(dtype, shape.head_dim, in.gate, [&](auto zero, auto lanes, auto gated) {
    using T = decltype(zero);
    dispatch_copies<T>(out.copy.values != nullptr, [&](auto copies) {
      forward_kernel<T, lanes(), gated(), copies()>
          <<<token_blocks(shape.tokens, kBlocks), kHeadThreads, 0, stream>>>(
              shape, in, static_cast<T*>(out.heads), out.copy);
    });
  });
  check_launch("exclusive_attention_forward");
}

void exclusive_attention_backward(const ExclusiveShape& shape, const ExclusiveInputs& in,
                                  const HeadVectors& d_out, ExclusiveGradients out, Dtype dtype,
                                  const Workspace& workspace, Stream stream) {
  if (shape.tokens == 0) return;
  const int columns = in.gate.x == nullptr ? 0 : shape.heads * in.gate.window;
  const int blocks = token_blocks(shape.tokens, columns == 0 ? kBlocks : kGatedBackwardBlocks);
  if (columns > 0) out.gate.partials = workspace(std::int64_t{blocks} * columns);
  const auto shared = kHeadWarps * columns * sizeof(float);
  dispatch_gated(dtype, shape.head_dim, in.gate, [&](auto zero, auto lanes, auto gated) {
    using T = decltype(zero);
    backward_kernel<T, lanes(), gated()><<<blocks, kHeadThreads, shared, stream>>>(
        shape, in, d_out, static_cast<T*>(out.y), static_cast<T*>(out.v), out.row_delta, out.gate);
  });
  check_launch("exclusive_attention_backward");
  if (columns > 0) sum_rows(out.gate.partials, blocks, columns, out.gate.weight, stream);
}

}  // namespace tg::cuda
