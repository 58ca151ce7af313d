// Heads of attention from the packed projection. Forward: q and k (and v, if it changes, or v
// alone) read once and written once. Backward: q, k and the gradients of q, k, v read once, one
// packed gradient written; the norm is computed again, unless the projection left it behind.
#include "ops/attention/head_vectors.cuh"
#include "ops/attention/qk_norm_rope_kernel.h"
#include "ops/norm/sum_rows.h"

namespace tg::cuda {

namespace {

constexpr int kForwardBlocks = 5;  // on a multiprocessor
// One wave of blocks in the backward: each leaves a row of partial sums. Fewer blocks, with more
// registers each, are slower, and so is every register that does not fit.
constexpr int kBackwardBlocks = 4;

// The rotation of one token for the numbers that a thread holds, the same for every head: each is
// turned with its partner, held by another lane. A thread beyond the rotated part keeps its.
template <typename T, int lanes>
struct Rotation {
  using P = Pack<T>;
  float cos[P::size], sin[P::size];
  int partner;  // lane of the warp

  // `direction` 1, or −1 for the way back.
  __device__ Rotation(const HeadShape& shape, const HeadOperands& in, int token, float direction) {
    const Seat<T, lanes> seat;
    const int half = shape.half_rope_dims, half_lanes = half / P::size;
    const bool first = seat.lane < half_lanes;
    const bool turned = seat.lane < 2 * half_lanes;
    const int away = !turned ? 0 : first ? half_lanes : -half_lanes;
    partner = static_cast<int>(threadIdx.x % kWarp) + away;
    P c{}, s{};
    if (turned) {
      const auto position = static_cast<unsigned>(token) % static_cast<unsigned>(shape.seq_len);
      const auto at = std::int64_t{position} * half + seat.offset - (first ? 0 : half);
      c = load_pack(static_cast<const T*>(in.cos) + at);
      s = load_pack(static_cast<const T*>(in.sin) + at);
    }
#pragma unroll
    for (int i = 0; i < P::size; ++i) {
      cos[i] = turned ? c[i] : 1;
      sin[i] = first ? direction * s[i] : -direction * s[i];
    }
  }

  // The whole warp takes part in both.
  __device__ void turn(const P& x, float (&turned)[P::size]) const {
    P other = x;
    for (auto& word : other.words) word = __shfl_sync(0xffffffff, word, partner);
#pragma unroll
    for (int i = 0; i < P::size; ++i) turned[i] = x[i] * cos[i] + other[i] * sin[i];
  }
  __device__ void turn(float (&x)[P::size]) const {
#pragma unroll
    for (int i = 0; i < P::size; ++i)
      x[i] = x[i] * cos[i] + __shfl_sync(0xffffffff, x[i], partner) * sin[i];
  }
};

// v = own·(layer's own value) + first·(the first layer's).
struct ValueWeights {
  float own = 1, first = 0;

  __device__ explicit ValueWeights(const HeadOperands& in) {
    if (in.first_v.data == nullptr) return;
    own = in.lambdas == 1 ? 1 - in.lambda[0] : in.lambda[1];
    first = in.lambda[0];
  }
};

__device__ HeadVectors packed(const HeadShape& shape, const void* qkv) {
  const std::int64_t row = std::int64_t{shape.heads + 2 * shape.kv_heads} * shape.head_dim;
  return {qkv, row, shape.head_dim};
}

template <typename T>
__device__ T* contiguous_head(void* tensor, int token, int heads, int head, int head_dim) {
  return static_cast<T*>(tensor) + (std::int64_t{token} * heads + head) * head_dim;
}

template <typename T, int lanes>
__device__ void mix_values(const HeadShape& shape, const HeadOperands& in,
                           const ValueWeights& weights, int token, void* v) {
  using P = Pack<T>;
  const Seat<T, lanes> seat;
  const int kv_heads = shape.kv_heads, dim = shape.head_dim;
  if (seat.offset >= dim) return;
  const auto qkv = packed(shape, in.qkv);
  for (int head = seat.head; head < kv_heads; head += seat.heads_at_once) {
    const P own = load_head<T>(qkv, token, shape.heads + kv_heads + head, seat.offset);
    const P embedding = load_head<T>(in.embedding, token, head, seat.offset);
    const P first = load_head<T>(in.first_v, token, head, seat.offset);
    float y[P::size];
#pragma unroll
    for (int i = 0; i < P::size; ++i)
      y[i] = weights.own * (own[i] + embedding[i]) + weights.first * first[i];
    store_rounded(contiguous_head<T>(v, token, kv_heads, head, dim) + seat.offset, y);
  }
}

// A token each, since nothing is kept from one to the next.
template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    values_kernel(HeadShape shape, HeadOperands in, void* v) {
  const ValueWeights weights(in);
  const int token = grid_warp();
  if (token < shape.tokens) mix_values<T, lanes>(shape, in, weights, token, v);
}

template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads, kForwardBlocks)
    forward_kernel(HeadShape shape, HeadOperands in, void* q, void* k, void* v) {
  using P = Pack<T>;
  const Seat<T, lanes> seat;
  const bool in_head = seat.offset < shape.head_dim;
  const int heads = shape.heads, kv_heads = shape.kv_heads, dim = shape.head_dim;
  const int turned_heads = heads + kv_heads;
  const float mean = 1.0f / dim;
  const auto qkv = packed(shape, in.qkv);
  const ValueWeights weights(in);
  for (int token = grid_warp(); token < shape.tokens; token += grid_warps()) {
    const Rotation<T, lanes> rotation(shape, in, token, 1);
    // The next heads are on their way while these are worked on.
    P x = load_head<T>(qkv, token, seat.head, seat.offset, in_head && seat.head < turned_heads);
    for (int head = seat.head; head - seat.head < turned_heads; head += seat.heads_at_once) {
      const int next = head + seat.heads_at_once;
      const P ahead = load_head<T>(qkv, token, next, seat.offset, in_head && next < turned_heads);
      float scale = rsqrtf(warp_sum<lanes>(dot(x, x)) * mean + kNormEpsilon);
      float y[P::size];
      rotation.turn(x, y);
      x = ahead;
      if (!in_head || head >= turned_heads) continue;
      const bool query = head < heads;
      if (query && in.q_gain != nullptr) scale *= in.q_gain[head];
#pragma unroll
      for (int i = 0; i < P::size; ++i) y[i] *= scale;
      T* const out = query ? contiguous_head<T>(q, token, heads, head, dim)
                           : contiguous_head<T>(k, token, kv_heads, head - heads, dim);
      store_rounded(out + seat.offset, y);
    }
    if (v != nullptr) mix_values<T, lanes>(shape, in, weights, token, v);
  }
}

// In the backward pass a warp keeps its heads, `heads_at_once` of them, for all the tokens it comes
// to: what belongs to a head, the sum for its gain too, then stays in registers.
template <typename T, int lanes>
struct Share {
  int head, token, step;  // of this lane, the first, to the next

  __device__ Share(int heads, int tokens) {
    const Seat<T, lanes> seat;
    const int groups = (heads + seat.heads_at_once - 1) / seat.heads_at_once;
    step = grid_warps() / groups;
    head = grid_warp() % groups * seat.heads_at_once + seat.head;
    token = grid_warp() < step * groups ? grid_warp() / groups : tokens;
  }
};

// What a lane holds of one head, token by token; one instruction finds it.
template <typename T>
class Column {
 public:
  __device__ Column(HeadVectors of, int head, int offset)
      : row_bytes_(static_cast<int>(of.row_stride * sizeof(T))) {
    if (of.data != nullptr)
      start_ = static_cast<const T*>(of.data) + head * of.head_stride + offset;
  }

  __device__ Pack<T> load(int token, bool there) const {
    return there && start_ != nullptr ? load_pack(at(token)) : Pack<T>{};
  }
  __device__ const T* at(int token) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(start_) +
                                      std::int64_t{token} * row_bytes_);
  }

 private:
  const T* start_ = nullptr;
  int row_bytes_;
};

// With n = x·r the normalised head, R the rotation and g the gain, y = g·R(n): dn = g·R⁻¹(dy),
// dg = n·R⁻¹(dy), and through the norm dx = r·(dn − n·mean(n·dn)). From y itself, since a rotation
// keeps products: dg = y·dy/g, dx = R⁻¹(r·(g·dy − y·dg/hd)).
template <typename T, int lanes, bool turned>
__device__ void turn_back(const HeadShape& shape, const HeadOperands& in,
                          const HeadGradients& gradients, void* d_qkv, float* gain_sums) {
  using P = Pack<T>;
  const Seat<T, lanes> seat;
  const int heads = shape.heads, turned_heads = heads + shape.kv_heads;
  const Share<T, lanes> share(turned_heads, shape.tokens);
  const int head = share.head;
  const bool in_head = seat.offset < shape.head_dim && head < turned_heads, query = head < heads;
  float gain = query && in.q_gain != nullptr ? in.q_gain[head] : 1;
  if constexpr (turned) gain = nonzero_gain(gain);
  const float inverse_gain = 1 / gain, mean = 1.0f / shape.head_dim;

  const Column<T> x(packed(shape, in.qkv), head, seat.offset);
  const Column<T> dy(query ? gradients.q : gradients.k, query ? head : head - heads, seat.offset);
  const Column<T> dx(packed(shape, d_qkv), head, seat.offset);
  const float* const inverse_rms = turned ? in.inverse_rms + head : nullptr;
  struct Loaded {
    P x, dy;
    float r;
  };
  const auto load = [&](int token) {
    const bool there = in_head && token < shape.tokens;
    return Loaded{x.load(token, there), dy.load(token, there),
                  turned && there ? inverse_rms[std::int64_t{token} * turned_heads] : 0};
  };

  float gain_sum = 0;
  // The next token is on its way while one is worked on.
  Loaded next = load(share.token);
  for (int token = share.token; token < shape.tokens; token += share.step) {
    const Loaded now = next;
    const Rotation<T, lanes> rotation(shape, in, token, -1);
    next = load(token + share.step);
    float out[P::size];
    if constexpr (turned) {
      const float d_gain = warp_sum<lanes>(dot(now.x, now.dy)) * inverse_gain;
      const float scale = now.r * gain, pull = now.r * d_gain * mean;
#pragma unroll
      for (int i = 0; i < P::size; ++i) out[i] = scale * now.dy[i] - pull * now.x[i];
      rotation.turn(out);
      gain_sum += d_gain;
    } else {
      float dn[P::size];
      rotation.turn(now.dy, dn);
      float x_dn = 0;
#pragma unroll
      for (int i = 0; i < P::size; ++i) x_dn += now.x[i] * dn[i];
      const float r = rsqrtf(warp_sum<lanes>(dot(now.x, now.x)) * mean + kNormEpsilon);
      const float d_gain = r * warp_sum<lanes>(x_dn);
      const float scale = gain * r, pull = r * d_gain * mean;
#pragma unroll
      for (int i = 0; i < P::size; ++i) out[i] = scale * (dn[i] - now.x[i] * pull);
      gain_sum += d_gain;
    }
    if (in_head) store_rounded(const_cast<T*>(dx.at(token)), out);
  }
  if (query && seat.lane == 0) gain_sums[head] = gain_sum;
}

template <typename T, int lanes>
__device__ void mix_values_back(const HeadShape& shape, const HeadOperands& in,
                                const HeadGradients& gradients, const HeadGradientsOut& out,
                                float* lambda_sums) {
  using P = Pack<T>;
  const Seat<T, lanes> seat;
  const int kv_heads = shape.kv_heads, dim = shape.head_dim;
  const int turned_heads = shape.heads + kv_heads, all_heads = turned_heads + kv_heads;
  const Share<T, lanes> share(kv_heads, shape.tokens);
  const int head = share.head;
  const auto qkv = packed(shape, in.qkv);
  const ValueWeights weights(in);
  float own_sum = 0, first_sum = 0;
  const int tokens = seat.offset < dim && head < kv_heads ? shape.tokens : 0;
  for (int token = share.token; token < tokens; token += share.step) {
    const P a = load_head<T>(gradients.v, token, head, seat.offset);
    const P b = load_head<T>(gradients.exclusive_v, token, head, seat.offset);
    const P later = load_head<T>(gradients.first_v, token, head, seat.offset);
    float d_own[P::size], d_first[P::size];
    if (out.first_v == nullptr) {
#pragma unroll
      for (int i = 0; i < P::size; ++i) d_own[i] = a[i] + b[i] + later[i];
    } else {
      const P own = load_head<T>(qkv, token, turned_heads + head, seat.offset);
      const P embedding = load_head<T>(in.embedding, token, head, seat.offset);
      const P first = load_head<T>(in.first_v, token, head, seat.offset);
#pragma unroll
      for (int i = 0; i < P::size; ++i) {
        const float d = a[i] + b[i], v = own[i] + embedding[i];
        d_own[i] = weights.own * d;
        d_first[i] = later[i] + weights.first * d;
        first_sum += d * (in.lambdas == 1 ? first[i] - v : first[i]);
        own_sum += d * v;
      }
      store_rounded(contiguous_head<T>(out.first_v, token, kv_heads, head, dim) + seat.offset,
                    d_first);
    }
    store_rounded(
        contiguous_head<T>(out.qkv, token, all_heads, turned_heads + head, dim) + seat.offset,
        d_own);
  }
  __syncwarp();
  first_sum = warp_sum(first_sum);
  own_sum = warp_sum(own_sum);
  if (threadIdx.x % kWarp == 0) {
    lambda_sums[0] = first_sum;
    lambda_sums[1] = own_sum;
  }
}

template <typename T, int lanes, bool turned>
__global__ void __launch_bounds__(kHeadThreads, kBackwardBlocks)
    backward_kernel(HeadShape shape, HeadOperands in, HeadGradients gradients,
                    HeadGradientsOut out) {
  const int columns = shape.heads + kLambdaSums;
  extern __shared__ float block_sums[];  // [kHeadWarps, columns]: a row belongs to a warp
  float* const sums = block_sums + threadIdx.x / kWarp * columns;
  for (int i = threadIdx.x; i < kHeadWarps * columns; i += kHeadThreads) block_sums[i] = 0;
  __syncthreads();
  turn_back<T, lanes, turned>(shape, in, gradients, out.qkv, sums);
  mix_values_back<T, lanes>(shape, in, gradients, out, sums + shape.heads);

  if (out.partials == nullptr) return;
  __syncthreads();
  for (int column = threadIdx.x; column < columns; column += kHeadThreads) {
    float sum = 0;
    for (int warp = 0; warp < kHeadWarps; ++warp) sum += block_sums[warp * columns + column];
    out.partials[std::int64_t{blockIdx.x} * columns + column] = sum;
  }
}

}  // namespace

void attention_heads_forward(const HeadShape& shape, const HeadOperands& in, void* q, void* k,
                             void* v, Float number, Stream stream) {
  if (shape.tokens == 0 || (q == nullptr && v == nullptr)) return;
  const int token_blocks = (shape.tokens + kHeadWarps - 1) / kHeadWarps;
  dispatch_heads(number, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    if (q == nullptr)
      values_kernel<T, lanes()><<<token_blocks, kHeadThreads, 0, stream>>>(shape, in, v);
    else
      forward_kernel<T, lanes()>
          <<<blocks_for(token_blocks, kForwardBlocks), kHeadThreads, 0, stream>>>(shape, in, q, k,
                                                                                  v);
  });
  check_launch("attention_heads_forward");
}

int attention_heads_partials(const HeadShape& shape) {
  // A warp at most for each head of each token, so that with few tokens, too, each head has one.
  const auto turned = std::int64_t{shape.tokens} * (shape.heads + shape.kv_heads);
  return blocks_for((turned + kHeadWarps - 1) / kHeadWarps, kBackwardBlocks);
}

void attention_heads_backward(const HeadShape& shape, const HeadOperands& in,
                              const HeadGradients& gradients, const HeadGradientsOut& out,
                              Float number, Stream stream) {
  const int blocks = attention_heads_partials(shape), columns = shape.heads + kLambdaSums;
  if (shape.tokens > 0 && blocks * kHeadWarps < shape.heads + shape.kv_heads)
    throw std::runtime_error("attention_heads_backward: more heads than warps on this GPU");
  const auto shared = kHeadWarps * columns * sizeof(float);
  dispatch_heads(number, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    const auto launch = [&](auto turned) {
      backward_kernel<T, lanes(), turned()>
          <<<blocks, kHeadThreads, shared, stream>>>(shape, in, gradients, out);
    };
    // Only what qkv_proj_norm_rope_hopper.h makes is turned.
    constexpr bool can_be_turned = std::is_same_v<T, __nv_bfloat16> && lanes() <= 16;
    if (in.inverse_rms == nullptr)
      launch(std::false_type{});
    else if constexpr (can_be_turned)
      launch(std::true_type{});
    else
      throw std::runtime_error("attention_heads_backward: such heads are never turned");
  });
  check_launch("attention_heads_backward");
  if (out.partials != nullptr) sum_rows(out.partials, blocks, columns, out.sums, stream);
}

}  // namespace tg::cuda
