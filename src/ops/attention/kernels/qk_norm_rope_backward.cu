// Backward of qk_norm_rope(): reads q, k and the gradients of q, k and v once and writes the
// gradient of qkv; it recomputes the norm, unless the projection's epilogue saved it
// (qkv_proj_norm_rope_hopper.h).
#include "ops/attention/kernels/qk_norm_rope.cuh"
#include "ops/attention/kernels/query_sum.cuh"
#include "ops/attention/kernels/rotary.cuh"
#include "ops/gemm/fp8.cuh"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

// Per SM. Backward runs as one wave, since each CTA writes a row of partial sums. Fewer CTAs with
// more registers each are slower, and so are spills.
constexpr int kBackwardBlocks = 4;

// A warp's work in backward: the same `heads_per_warp` heads for all its tokens, so that per-head
// state, such as the gain's gradient, stays in registers.
template <typename T, int lanes>
struct WarpWork {
  int head;  // of this lane; may be out of range
  int token, token_step;

  __device__ WarpWork(int heads, int tokens) {
    const HeadLane<T, lanes> lane;
    const int groups = (heads + lane.heads_per_warp - 1) / lane.heads_per_warp;
    token_step = num_grid_warps() / groups;
    head = grid_warp_index() % groups * lane.heads_per_warp + lane.head;
    token = grid_warp_index() < token_step * groups ? grid_warp_index() / groups : tokens;
  }
};

// A lane's pack of one head in every token, addressed with one multiply-add.
template <typename T>
class HeadColumn {
 public:
  __device__ HeadColumn(HeadVectors from, int head, int offset)
      : token_bytes_(static_cast<int>(from.token_stride * sizeof(T))) {
    if (from.data != nullptr)
      start_ = static_cast<const T*>(from.data) + head * from.head_stride + offset;
  }

  __device__ Pack<T> load(int token, bool in_bounds) const {
    return in_bounds && start_ != nullptr ? load_pack(pointer(token)) : Pack<T>{};
  }
  __device__ const T* pointer(int token) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(start_) +
                                      std::int64_t{token} * token_bytes_);
  }

 private:
  const T* start_ = nullptr;
  int token_bytes_;
};

// Loads this lane's pack of a query head's gradient from q_sum, rounded to T.
template <typename T, int lanes>
__device__ Pack<T> load_rounded_query_sum(const QkvShape& shape, const QkNormRopeUpstream& upstream,
                                          int token, int head) {
  constexpr int head_dim = lanes * Pack<T>::size;
  const auto position = static_cast<unsigned>(token), length = static_cast<unsigned>(shape.seq_len);
  const auto head_index = std::int64_t{position / length} * shape.heads + head;
  float x[Pack<T>::size];
  load_query_sum<head_dim>(upstream.q_sum + head_index * upstream.padded_len * head_dim,
                           static_cast<int>(position % length), HeadLane<T, lanes>().index, x);
  return Pack<T>::rounded(x);
}

template <int size>
struct Floats {
  float values[size];
  __device__ float operator[](int i) const { return values[i]; }
};

// With n = x·r the normalised head, R the rotation, g the gain and y = g·R(n): dn = g·R⁻¹(dy), dg =
// n·R⁻¹(dy), and through the norm dx = r·(dn − n·mean(n·dn)). From y instead of x (`rotated`: qkv
// holds y), since rotation preserves dot products: dg = y·dy/g, dx = R⁻¹(r·(g·dy − y·dg/channels)).
template <typename T, int lanes, bool interleaved, bool rotated, bool copies, bool sums_q>
__device__ void norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                                   const QkNormRopeUpstream& upstream, void* d_qkv,
                                   Fp8Writer<copies>& copy, float* gain_sums) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  const int heads = shape.heads, qk_heads = heads + shape.kv_heads;
  const int all_heads = qk_heads + shape.kv_heads;
  const WarpWork<T, lanes> work(qk_heads, shape.tokens);
  const int head = work.head;
  const bool in_head = lane.offset < shape.head_dim && head < qk_heads, query = head < heads;
  float gain = query && in.q_gain != nullptr ? in.q_gain[head] : 1;
  if constexpr (rotated) gain = nonzero_gain<T>(gain);
  const float inverse_gain = 1 / gain, mean = 1.0f / shape.channels;

  const HeadColumn<T> x(qkv_heads(shape, in.qkv), head, lane.offset);
  const HeadColumn<T> dy(query ? upstream.q : upstream.k, query ? head : head - heads, lane.offset);
  const float* const inverse_rms = rotated ? in.inverse_rms + head : nullptr;
  struct Loaded {
    P x, dy;
    float r;  // inverse_rms
  };
  // A moved key has the next token's gradient; the row's first key also has its own token's.
  const bool moved = interleaved && !query && moves_key<T, lanes>(shape);
  const auto load_dy = [&](int token, bool in_bounds) {
    if (!interleaved || !moved) return dy.load(token, in_bounds);
    return dy.load(token + 1, in_bounds && position_of(shape, token) + 1 <
                                               static_cast<unsigned>(shape.seq_len));
  };
  const auto load = [&](int token) {
    const bool in_bounds = in_head && token < shape.tokens;
    Loaded loaded{x.load(token, in_bounds), load_dy(token, in_bounds),
                  rotated && in_bounds ? inverse_rms[std::int64_t{token} * qk_heads] : 0};
    if constexpr (sums_q) {
      if (query && in_bounds)
        loaded.dy = load_rounded_query_sum<T, lanes>(shape, upstream, token, head);
    }
    return loaded;
  };

  float gain_sum = 0;
  // Prefetches the next token while the current one is computed.
  Loaded next = load(work.token);
  for (int token = work.token; token < shape.tokens; token += work.token_step) {
    const Loaded current = next;
    const Rotary<T, lanes, interleaved> rotary(shape, in, token, head, -1);
    next = load(token + work.token_step);
    const auto current_dy = [&] {
      if constexpr (interleaved) {
        Floats<P::size> sum;
        const bool has_own = moved && in_head && position_of(shape, token) == 0;
        const P own = dy.load(token, has_own);
#pragma unroll
        for (int i = 0; i < P::size; ++i) sum.values[i] = current.dy[i] + own[i];
        return sum;
      } else {
        return current.dy;
      }
    }();
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
    const auto at = (std::int64_t{token} * all_heads + head) * shape.head_dim + lane.offset;
    if (d_qkv != nullptr) store_rounded(static_cast<T*>(d_qkv) + at, out);
    copy.store(at, P::rounded(out));
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
  const int qk_heads = shape.heads + kv_heads, all_heads = qk_heads + kv_heads;
  const WarpWork<T, lanes> work(kv_heads, shape.tokens);
  const int head = work.head;
  const float first_weight = first_weight_of(in);
  float sum = 0;
  const int tokens = lane.offset < dim && head < kv_heads ? shape.tokens : 0;
  for (int token = work.token; token < tokens; token += work.token_step) {
    const P a = load_head<T>(upstream.v, token, head, lane.offset);
    const P b = load_head<T>(upstream.exclusive_v, token, head, lane.offset);
    const P later_layers = load_head<T>(upstream.first_v, token, head, lane.offset);
    float d[P::size];
#pragma unroll
    for (int i = 0; i < P::size; ++i) d[i] = a[i] + b[i];
    if (out.first_v == nullptr) {
#pragma unroll
      for (int i = 0; i < P::size; ++i) d[i] += later_layers[i];
    } else {
      const P first = load_head<T>(in.first_v, token, head, lane.offset);
      float d_first[P::size];
#pragma unroll
      for (int i = 0; i < P::size; ++i) {
        d_first[i] = later_layers[i] + first_weight * d[i];
        sum += d[i] * first[i];
      }
      store_rounded(contiguous_head<T>(out.first_v, token, kv_heads, head, dim) + lane.offset,
                    d_first);
    }
    const float row_scale = row_scale_of(in, token);
#pragma unroll
    for (int i = 0; i < P::size; ++i) d[i] *= row_scale;
    const auto at = (std::int64_t{token} * all_heads + qk_heads + head) * dim + lane.offset;
    if (out.qkv != nullptr) store_rounded(static_cast<T*>(out.qkv) + at, d);
    copy.store(at, P::rounded(d));
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

int qk_norm_rope_backward_blocks(const QkvShape& shape) {
  // At most one warp per head and token; with few tokens every head still gets a warp.
  const auto qk_rows = std::int64_t{shape.tokens} * (shape.heads + shape.kv_heads);
  return blocks_for((qk_rows + kHeadWarps - 1) / kHeadWarps, kBackwardBlocks);
}

void qk_norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                           const QkNormRopeUpstream& upstream, const QkNormRopeGradients& out,
                           Dtype dtype, Stream stream) {
  const int blocks = qk_norm_rope_backward_blocks(shape), columns = shape.heads + kWeightSums;
  if (shape.tokens > 0 && blocks * kHeadWarps < shape.heads + shape.kv_heads)
    throw std::runtime_error("qk_norm_rope_backward: more heads than warps on this GPU");
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
    // Only qkv_proj_norm_rope_hopper.h rotates in the projection: heads of at most 128 in half
    // precision.
    constexpr bool can_be_rotated = !std::is_same_v<T, float> && lanes() <= 16;
    if (in.inverse_rms == nullptr) return launch(no, no, no);
    if constexpr (can_be_rotated) {
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
  if (out.partials != nullptr) sum_rows(out.partials, blocks, columns, out.sums, stream);
}

}  // namespace tg::cuda
