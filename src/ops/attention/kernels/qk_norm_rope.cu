// RMSNorm, RoPE and gain of q and k, and the value residual, from the QKV projection. Forward reads
// and writes q and k once, and v if it changes.
#include "ops/attention/kernels/qk_norm_rope.cuh"
#include "ops/attention/kernels/rotary.cuh"

namespace tg::cuda {

namespace {

constexpr int kForwardBlocks = 5;  // per SM

// Where forward writes the heads of q, k and v: contiguous tensors, or the places in qkv that it
// reads them from. Null v: not written.
struct ForwardOutputs {
  void *q, *k, *v;
  int q_per_token, kv_per_token;  // heads from one token's first head to the next token's
};

template <typename T, int lanes>
__device__ void value_forward(const QkvShape& shape, const QkNormRopeInputs& in, float row_scale,
                              float first_weight, int token, const ForwardOutputs& out) {
  using P = Pack<T>;
  const HeadLane<T, lanes> lane;
  const int kv_heads = shape.kv_heads, dim = shape.head_dim;
  if (lane.offset >= dim) return;
  const auto qkv = qkv_heads(shape, in.qkv);
  for (int head = lane.head; head < kv_heads; head += lane.heads_per_warp) {
    const P own = load_head<T>(qkv, token, shape.heads + kv_heads + head, lane.offset);
    const P embedding = load_head<T>(in.embedding, token, head, lane.offset);
    const P first = load_head<T>(in.first_v, token, head, lane.offset);
    float y[P::size];
#pragma unroll
    for (int i = 0; i < P::size; ++i)
      y[i] = row_scale * own[i] + embedding[i] + first_weight * first[i];
    store_rounded(contiguous_head<T>(out.v, token, out.kv_per_token, head, dim) + lane.offset, y);
  }
}

// A lane's heads have the same table, unless a warp processes one head at a time. `in_place`: the
// rows have scales, the gain is not 0, and keys have no offset (qk_norm_rope_in_place).
template <typename T, int lanes, bool interleaved, bool in_place>
__global__ void __launch_bounds__(kHeadThreads, kForwardBlocks)
    forward_kernel(QkvShape shape, QkNormRopeInputs in, ForwardOutputs to, float* inverse_rms) {
  using P = Pack<T>;
  using Pairs = Rotary<T, lanes, interleaved>;
  const HeadLane<T, lanes> lane;
  const bool in_head = lane.offset < shape.head_dim;
  const int heads = shape.heads, kv_heads = shape.kv_heads, dim = shape.head_dim;
  const int qk_heads = heads + kv_heads;
  const float mean = 1.0f / shape.channels;
  const auto qkv = qkv_heads(shape, in.qkv);
  const float first_weight = first_weight_of(in);
  const bool moved = interleaved && !in_place && moves_key<T, lanes>(shape);
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    const auto position = position_of(shape, token);
    const float row_scale = in_place ? row_scale_of(in, token) : 1;
    Pairs rotary(shape, Pairs::column(shape, in, lane.head).load(position), 1);
    // Prefetches the next heads while the current ones are computed.
    P x = load_head<T>(qkv, token, lane.head, lane.offset, in_head && lane.head < qk_heads);
    for (int head = lane.head; head - lane.head < qk_heads; head += lane.heads_per_warp) {
      const int next = head + lane.heads_per_warp;
      const P prefetched = load_head<T>(qkv, token, next, lane.offset, in_head && next < qk_heads);
      float scale =
          rsqrtf(warp_sum<lanes>(dot(x, x)) * (row_scale * row_scale * mean) + kNormEpsilon) *
          row_scale;
      float y[P::size];
      if constexpr (interleaved && lane.heads_per_warp == 1)
        rotary = Pairs(shape, Pairs::column(shape, in, head).load(position), 1);
      rotary.rotate(x, y);
      x = prefetched;
      if (!in_head || head >= qk_heads) continue;
      if (in_place && lane.index == 0) inverse_rms[std::int64_t{token} * qk_heads + head] = scale;
      const bool query = head < heads;
      if (query && in.q_gain != nullptr)
        scale *= in_place ? nonzero_gain<T>(in.q_gain[head]) : in.q_gain[head];
#pragma unroll
      for (int i = 0; i < P::size; ++i) y[i] *= scale;
      T* const out = query ? contiguous_head<T>(to.q, token, to.q_per_token, head, dim)
                           : contiguous_head<T>(to.k, token, to.kv_per_token, head - heads, dim);
      if (interleaved && moved && !query) {
        if (position + 1 < static_cast<unsigned>(shape.seq_len))
          store_rounded(out + kv_heads * dim + lane.offset, y);
        if (position > 0) continue;
      }
      store_rounded(out + lane.offset, y);
    }
    if (to.v != nullptr) value_forward<T, lanes>(shape, in, row_scale, first_weight, token, to);
  }
}

template <typename T, int lanes, bool in_place>
void launch_forward(const QkvShape& shape, const QkNormRopeInputs& in, const ForwardOutputs& to,
                    float* inverse_rms, Stream stream) {
  dispatch_pairs(shape, [&](auto interleaved) {
    forward_kernel<T, lanes, interleaved(), in_place>
        <<<token_blocks(shape.tokens, kForwardBlocks), kHeadThreads, 0, stream>>>(shape, in, to,
                                                                                  inverse_rms);
  });
  check_launch("qk_norm_rope_forward");
}

template <typename T, int lanes>
__global__ void __launch_bounds__(kHeadThreads)
    copy_heads_kernel(QkvShape shape, HeadVectors from, int heads, bool key_offset, void* to) {
  const HeadLane<T, lanes> lane;
  if (lane.offset >= shape.head_dim) return;
  const bool moved = key_offset && moves_key<T, lanes>(shape);
  for (int token = grid_warp_index(); token < shape.tokens; token += num_grid_warps()) {
    const int source = moved && position_of(shape, token) > 0 ? token - 1 : token;
    for (int head = lane.head; head < heads; head += lane.heads_per_warp)
      store_pack(contiguous_head<T>(to, token, heads, head, shape.head_dim) + lane.offset,
                 load_head<T>(from, source, head, lane.offset));
  }
}

}  // namespace

void copy_heads(const QkvShape& shape, const HeadVectors& from, int heads, bool key_offset,
                void* to, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    copy_heads_kernel<decltype(zero), lanes()>
        <<<token_blocks(shape.tokens, 8), kHeadThreads, 0, stream>>>(shape, from, heads, key_offset,
                                                                     to);
  });
  check_launch("copy_heads");
}

void qk_norm_rope_in_place(const QkvShape& shape, QkNormRopeInputs in, void* qkv,
                           float* inverse_rms, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  const int qk_heads = shape.heads + shape.kv_heads, per_token = qk_heads + shape.kv_heads;
  const bool changes_v =
      in.row_scale != nullptr || in.embedding.data != nullptr || in.first_v.data != nullptr;
  in.qkv = qkv;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    using T = decltype(zero);
    if constexpr (is_rotated<T, lanes()>) {
      const auto at = [&](int head) { return static_cast<T*>(qkv) + head * shape.head_dim; };
      const ForwardOutputs to{at(0), at(shape.heads), changes_v ? at(qk_heads) : nullptr, per_token,
                              per_token};
      launch_forward<T, lanes(), true>(shape, in, to, inverse_rms, stream);
    } else {
      throw std::runtime_error("qk_norm_rope_in_place: no kernel for heads of this size and dtype");
    }
  });
}

void qk_norm_rope_forward(const QkvShape& shape, const QkNormRopeInputs& in, void* q, void* k,
                          void* v, Dtype dtype, Stream stream) {
  if (shape.tokens == 0) return;
  dispatch_heads(dtype, shape.head_dim, [&](auto zero, auto lanes) {
    launch_forward<decltype(zero), lanes(), false>(
        shape, in, {q, k, v, shape.heads, shape.kv_heads}, nullptr, stream);
  });
}

}  // namespace tg::cuda
