// Backward of qk_norm_rope(): reads q, k and the gradients of q, k and v once and writes the
// gradient of qkv; it recomputes the norm, unless forward saved it (inverse_rms).
#include "ops/attention/kernels/head_columns.cuh"
#include "ops/attention/kernels/qk_norm_rope.cuh"
#include "ops/attention/kernels/query_sum.cuh"
#include "ops/attention/kernels/rotary.cuh"
#include "ops/gemm/fp8.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

// Per SM. Backward runs as one wave, since each CTA writes a row of partial sums. With more CTAs
// the registers of what a lane prefetches would be spilled.
constexpr int kBackwardBlocks = 3;

template <int size>
struct Floats {
  float values[size];
  __device__ float operator[](int i) const { return values[i]; }
};

// The row and the position of a warp's token. The step is divided once, so that the loop has no
// division.
class RowPosition {
 public:
  unsigned row, position;

  __device__ RowPosition(const QkvShape& shape, int token, int token_step)
      : length_(static_cast<unsigned>(shape.seq_len)) {
    row = static_cast<unsigned>(token) / length_, position = position_of(shape, token);
    row_step_ = static_cast<unsigned>(token_step) / length_;
    position_step_ = position_of(shape, token_step);
  }
  __device__ bool is_last() const { return position + 1 == length_; }
  __device__ void advance() {
    row += row_step_, position += position_step_;
    if (position >= length_) ++row, position -= length_;
  }

 private:
  unsigned length_, row_step_, position_step_;
};

// Returns the column of a head of q, or after these of k, in the saved qkv.
template <typename T>
__device__ HeadColumn<T> saved_column(const QkvShape& shape, const void* qkv, int head,
                                      int offset) {
  if (!shape.apart) return {qkv_heads(shape, qkv), head, offset};
  const int part = head / shape.heads, row_size = shape.heads * shape.head_dim;
  const auto* const first =
      static_cast<const T*>(qkv) + std::int64_t{part} * shape.tokens * row_size;
  return {{first, row_size, shape.head_dim}, head % shape.heads, offset};
}

// With n = x·r the normalised head, R the rotation, g the gain and y = g·R(n): dn = g·R⁻¹(dy), dg =
// n·R⁻¹(dy), and through the norm dx = r·(dn − n·mean(n·dn)). From y instead of x (`rotated`: qkv
// holds y), since rotation preserves dot products: dg = y·dy/g, dx = R⁻¹(r·(g·dy − y·dg/channels)).
template <typename T, int lanes, bool interleaved, bool rotated, bool copies, bool sums_q>
__device__ void norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                                   const QkNormRopeUpstream& upstream, void* d_qkv,
                                   Fp8Writer<copies>& copy, float* gain_sums) {
  using P = Pack<T>;
  using Pairs = Rotary<T, lanes, interleaved>;
  using Sum = QuerySum<sums_q ? lanes * P::size : 64>;
  const HeadLane<T, lanes> lane;
  const int heads = shape.heads, qk_heads = heads + shape.kv_heads;
  const int row_size = (qk_heads + shape.kv_heads) * shape.head_dim;
  const WarpWork<T, lanes> work(qk_heads, shape.tokens);
  const int head = work.head;
  const bool in_head = lane.offset < shape.head_dim && head < qk_heads, query = head < heads;
  float gain = query && in.q_gain != nullptr ? in.q_gain[head] : 1;
  if constexpr (rotated) gain = nonzero_gain<T>(gain);
  const float inverse_gain = 1 / gain, mean = 1.0f / shape.channels;

  const auto x = saved_column<T>(shape, in.qkv, head, lane.offset);
  const HeadColumn<T> dy(query ? upstream.q : upstream.k, query ? head : head - heads, lane.offset);
  const float* const inverse_rms = rotated ? in.inverse_rms + head : nullptr;
  const auto angles = Pairs::column(shape, in, head);
  const bool sums = sums_q && query;
  const int sum_heads = sums ? upstream.q_sum_heads : 1;
  // A moved key has the next token's gradient; the row's first key also has its own token's.
  const bool moved = interleaved && !query && moves_key<T, lanes>(shape);
  struct Loaded {
    P x, dy;
    Sum sum;  // instead of dy
    typename Pairs::Loaded angles;
    float r;  // inverse_rms
  };
  Loaded next{};  // stays zero in idle lanes
  RowPosition at(shape, work.token, work.token_step);
  const auto load_next = [&](int token) {
    if (!in_head || token >= shape.tokens) return;
    next.x = x.load(token);
    if (sums) {
      const auto sum_head = std::int64_t{at.row} * sum_heads + head % sum_heads;
      next.sum = Sum::load(upstream.q_sum + sum_head * upstream.padded_len * (lanes * P::size),
                           at.position * (heads / sum_heads) + head / sum_heads, lane.index);
    } else {
      next.dy = dy.load(token + moved, !(moved && at.is_last()));
    }
    if constexpr (interleaved) next.angles = angles.load(at.position);
    if constexpr (rotated) next.r = inverse_rms[std::int64_t{token} * qk_heads];
  };

  float gain_sum = 0;
  // Prefetches the next token while the current one is computed.
  load_next(work.token);
  for (int token = work.token; token < shape.tokens; token += work.token_step) {
    Loaded current = next;
    const unsigned position = at.position;
    // Half-split angles, twice as many, would take too many registers.
    if constexpr (!interleaved) current.angles = angles.load(position);
    at.advance();
    load_next(token + work.token_step);
    P packed_dy = current.dy;
    if constexpr (sums_q) {
      const P rounded = current.sum.template rounded<T>(lane.index);
      if (sums) packed_dy = rounded;
    }
    const auto current_dy = [&] {
      if constexpr (interleaved) {
        Floats<P::size> sum;
#pragma unroll
        for (int i = 0; i < P::size; ++i) sum.values[i] = packed_dy[i];
        if (moved && in_head && position == 0) {
          const P own = dy.load(token);
#pragma unroll
          for (int i = 0; i < P::size; ++i) sum.values[i] += own[i];
        }
        return sum;
      } else {
        return packed_dy;
      }
    }();
    const Pairs rotary(shape, current.angles, -1);
    float out[P::size];
    if constexpr (rotated) {
      const float d_gain = warp_sum<lanes>(dot(current.x, current_dy)) * inverse_gain;
      const float scale = current.r * gain, correction = current.r * d_gain * mean;
#pragma unroll
      for (int i = 0; i < P::size; ++i) out[i] = scale * current_dy[i] - correction * current.x[i];
      rotary.rotate(out);
      gain_sum += d_gain;
    } else {
      float dn[P::size];
      rotary.rotate(current_dy, dn);
      float x_dn = 0;
#pragma unroll
      for (int i = 0; i < P::size; ++i) x_dn += current.x[i] * dn[i];
      const float r = rsqrtf(warp_sum<lanes>(dot(current.x, current.x)) * mean + kNormEpsilon);
      const float d_gain = r * warp_sum<lanes>(x_dn);
      const float scale = gain * r, correction = r * d_gain * mean;
#pragma unroll
      for (int i = 0; i < P::size; ++i) out[i] = scale * (dn[i] - current.x[i] * correction);
      gain_sum += d_gain;
    }
    if (!in_head) continue;
    const auto offset = std::int64_t{token} * row_size + head * shape.head_dim + lane.offset;
    if constexpr (copies)
      copy.store(offset, P::rounded(out));
    else
      store_rounded(static_cast<T*>(d_qkv) + offset, out);
  }
  if (query && lane.index == 0) gain_sums[head] = gain_sum;
}

template <typename T, int lanes, bool copies>
__device__ void value_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                               const QkNormRopeUpstream& upstream, const QkNormRopeGradients& out,
                               Fp8Writer<copies>& copy, float* weight_sum) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  const int kv_heads = shape.kv_heads, dim = shape.head_dim;
  const int qk_heads = shape.heads + kv_heads, row_size = (qk_heads + kv_heads) * dim;
  const WarpWork<T, lanes> work(kv_heads, shape.tokens);
  const int head = work.head;
  const float first_weight = first_weight_of(in);
  const bool mixed = out.first_v != nullptr;
  const HeadColumn<T> dv(upstream.v, head, lane.offset),
      exclusive_dv(upstream.exclusive_v, head, lane.offset),
      later_layers(upstream.first_v, head, lane.offset),
      first_v(mixed ? in.first_v : HeadVectors{}, head, lane.offset);
  const int tokens = lane.offset < dim && head < kv_heads ? shape.tokens : 0;
  struct Loaded {
    P dv, exclusive_dv, later_layers, first_v;
    float row_scale;
  };
  Loaded next{};
  const auto load_next = [&](int token) {
    if (token >= tokens) return;
    next = {dv.load(token), exclusive_dv.load(token), later_layers.load(token), first_v.load(token),
            row_scale_of(in, token)};
  };
  float sum = 0;
  // Prefetches like norm_rope_backward().
  load_next(work.token);
  for (int token = work.token; token < tokens; token += work.token_step) {
    const Loaded current = next;
    load_next(token + work.token_step);
    float d[P::size];
#pragma unroll
    for (int i = 0; i < P::size; ++i) d[i] = current.dv[i] + current.exclusive_dv[i];
    if (!mixed) {
#pragma unroll
      for (int i = 0; i < P::size; ++i) d[i] += current.later_layers[i];
    } else {
      float d_first[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) {
        d_first[i] = current.later_layers[i] + first_weight * d[i];
        sum += d[i] * current.first_v[i];
      }
      store_rounded(contiguous_head<T>(out.first_v, token, kv_heads, head, dim) + lane.offset,
                    d_first);
    }
#pragma unroll
    for (int i = 0; i < P::size; ++i) d[i] *= current.row_scale;
    const auto offset = std::int64_t{token} * row_size + (qk_heads + head) * dim + lane.offset;
    if (out.v != nullptr)
      store_rounded(static_cast<T*>(out.v) + token * out.v_stride + head * dim + lane.offset, d);
    copy.store(offset, P::rounded(d));
  }
  __syncwarp();
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) *weight_sum = sum;
}

template <typename T, int lanes, bool interleaved, bool rotated, bool copies, bool sums_q>
__global__ void __launch_bounds__(kHeadThreads, kBackwardBlocks)
    backward_kernel(QkvShape shape, QkNormRopeInputs in, QkNormRopeUpstream upstream,
                    QkNormRopeGradients out) {
  const int columns = shape.heads + kWeightSums;
  extern __shared__ float block_sums[];  // [kHeadWarps, columns], a row per warp
  float* const sums = block_sums + threadIdx.x / kWarp * columns;
  for (int i = threadIdx.x; i < kHeadWarps * columns; i += kHeadThreads) block_sums[i] = 0;
  __syncthreads();
  Fp8Writer<copies> copy(out.qkv_copy);
  norm_rope_backward<T, lanes, interleaved, rotated, copies, sums_q>(shape, in, upstream, out.qkv,
                                                                     copy, sums);
  value_backward<T, lanes>(shape, in, upstream, out, copy, sums + shape.heads);
  copy.end();

  if (out.partials == nullptr) return;
  __syncthreads();
  for (int column = threadIdx.x; column < columns; column += kHeadThreads) {
    float sum = 0;
    for (int warp = 0; warp < kHeadWarps; ++warp) sum += block_sums[warp * columns + column];
    out.partials[std::int64_t{blockIdx.x} * columns + column] = sum;
  }
}

}  // namespace

void qk_norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                           const QkNormRopeUpstream& upstream, QkNormRopeGradients out, Dtype dtype,
                           const Workspace& workspace, Stream stream) {
  // At most one warp per head and token; with few tokens every head still gets a warp.
  const auto qk_rows = std::int64_t{shape.tokens} * (shape.heads + shape.kv_heads);
  const int blocks = blocks_for((qk_rows + kHeadWarps - 1) / kHeadWarps, kBackwardBlocks);
  const int columns = shape.heads + kWeightSums;
  out.partials = out.sums == nullptr ? nullptr : workspace(std::int64_t{blocks} * columns);
  if (shape.tokens > 0)
    require_warps(blocks, shape.heads + shape.kv_heads, "qk_norm_rope_backward");
  const auto shared = kHeadWarps * columns * sizeof(float);
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    constexpr std::true_type yes;
    constexpr std::false_type no;
    const auto launch = [&](auto rotated, auto copies, auto sums_q) {
      dispatch_pairs(shape, [&](auto interleaved) {
        backward_kernel<T, lanes(), interleaved(), rotated(), copies(), sums_q()>
            <<<blocks, kHeadThreads, shared, stream>>>(shape, in, upstream, out);
      });
    };
    if (in.inverse_rms == nullptr) return launch(no, no, no);
    if constexpr (is_rotated<T, lanes()>) {
      const bool sums_q = upstream.q_sum != nullptr;
      if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        if (out.qkv_copy.values != nullptr)
          return sums_q ? launch(yes, yes, yes) : launch(yes, yes, no);
      }
      sums_q ? launch(yes, no, yes) : launch(yes, no, no);
    } else {
      throw std::runtime_error(
          "qk_norm_rope_backward: no kernel for rotated heads of this size and dtype");
    }
  });
  check_launch("qk_norm_rope_backward");
  if (out.sums != nullptr) sum_rows(out.partials, blocks, columns, out.sums, stream);
}

}  // namespace tg::cuda
