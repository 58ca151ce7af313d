#pragma once
#include "device/launch.h"
#include "ops/gemm/fp8_kernel.h"

namespace tg::cuda {

// View of a tensor [tokens, heads, hd]: the elements of a head are contiguous; strides count
// elements. Base address and strides are multiples of 16 bytes. Null data reads as zeros.
struct HeadVectors {
  const void* data;
  std::int64_t token_stride, head_stride;
};

// The shape of attention, for the kernels of Hopper.
constexpr int kAttentionBlock = 128;
struct AttentionShape {
  int batch, seq_len;
  int padded_len;       // seq_len rounded up to a multiple of kAttentionBlock
  int heads, kv_heads;  // heads is a multiple of kv_heads
  int head_dim;         // 64 or 128
  float scale;          // softmax scale
};

// The largest head, in packs of 16 bytes: one per lane of a warp.
constexpr int kMaxPacksPerHead = 32;

// Limits of the kernels: the window, and heads·window, since a CTA has one sum per weight and warp
// in shared memory.
constexpr int kMaxGateWindow = 16, kMaxGateWeights = 1024;

// Gate of token t and head h: range·σ(scale·row_scale[t]·Σ_j weight[h, j]·x[t, j]) over the first
// `window` columns j of x (ops/attention/gates/head_gate.h).
struct HeadGateTensors {
  const void* x;  // [tokens, window] in the kernel's dtype; null: no gate
  std::int64_t token_stride;
  const float* row_scale;  // [tokens]; null: 1
  const float* weight;     // [heads, window]
  int window;
  float scale, range;
};
struct HeadGateGradients {
  float* x;                   // [tokens, window]
  float* partials = nullptr;  // [CTAs, heads·window]: set by the launcher
  float* weight;              // [heads, window]
};

// Adds `gradient` [tokens, window] to the first columns of dx [tokens, width], contiguous.
void add_to_first_columns(const float* gradient, std::int64_t tokens, int window, void* dx,
                          std::int64_t width, Dtype dtype, Stream stream);

struct ExclusiveShape {
  int tokens, heads, kv_heads, head_dim;
};

// delta = rowsum(y ∘ dy) [B, heads, padded_len], for attention's backward kernel
// (attention_backward_hopper.h). Null: not computed.
struct RowDelta {
  float* delta;
  int seq_len, padded_len;
};

// A kernel's result [tokens, heads, hd], contiguous, and in bf16 its FP8 copy, if any.
struct RoundedHeads {
  void* heads;
  Fp8Copy copy{};
};

struct ExclusiveInputs {
  HeadVectors y, v;  // null v: the gate alone
  HeadGateTensors gate{};
};
struct ExclusiveGradients {
  void *y, *v;  // null v without in.v
  RowDelta row_delta{};
  HeadGateGradients gate{};  // if there is a gate
};

// Kernels of ops/attention/gates/xsa.h. Gradients are contiguous.
void exclusive_attention_forward(const ExclusiveShape& shape, const ExclusiveInputs& in,
                                 const RoundedHeads& out, Dtype dtype, Stream stream);
void exclusive_attention_backward(const ExclusiveShape& shape, const ExclusiveInputs& in,
                                  const HeadVectors& d_out, ExclusiveGradients out, Dtype dtype,
                                  const Workspace& workspace, Stream stream);

// Kernels of ops/attention/projection/qk_norm_rope.h. A null pointer omits an optional tensor.
struct QkvShape {
  int tokens, seq_len, heads, kv_heads, head_dim, half_rope_dims;
  int channels;  // of a head, without padding, for the norm's mean
  // Tables of angles; head h has table h % tables. 1, or with interleaved pairs 2, of even numbers
  // of heads: of paired heads, at positions 2t and 2t + 1.
  int tables;
  bool interleaved;  // RopeTable::interleaved
  bool key_offset;   // QkvInputs::key_offset, only with interleaved pairs
  // Whether qkv is [3, tokens, heads, hd], for as many heads of k as of q, instead of [tokens,
  // heads + 2·KV, hd]. Only qkv_proj_norm_rope() writes it and qk_norm_rope_backward() reads it.
  bool apart = false;
};

struct QkNormRopeInputs {
  const void* qkv;  // [tokens, heads + 2·KV, hd], or as shape.apart says
  // [tokens, heads + KV]: row_scale/rms of the heads of q and k, if qkv already holds them
  // normalised, rotated and scaled (nonzero_gain), without key offset; backward only. Null: qkv is
  // the plain projection.
  const float* inverse_rms;
  const void *cos, *sin;           // [seq_len, tables, half_rope_dims]
  const float* q_gain;             // [heads]
  HeadVectors embedding, first_v;  // [tokens, KV, hd]
  const float* first_weight;       // [], of first_v
  // [tokens]: row scale of the projection's input, applied to the projection and its gradient.
  // Null: 1. Not read by qk_norm_rope_forward().
  const float* row_scale;
};

// Upstream gradients.
struct QkNormRopeUpstream {
  HeadVectors q, k, v, exclusive_v;
  HeadVectors first_v;  // summed over later layers
  // Replaces q, with in.inverse_rms and heads of 64 or 128: in query_sum.cuh's layout.
  const float* q_sum;
  int q_sum_heads;  // `heads`, or half of them: of paired heads, at positions 2t and 2t + 1
  int padded_len;   // rows of q_sum per sequence
};

constexpr int kWeightSums = 1;
struct QkNormRopeGradients {
  void* qkv;  // of q and k only; null with qkv_copy
  void* v;    // [tokens, KV, hd], v_stride elements between tokens; null: not written
  std::int64_t v_stride;
  void* first_v;              // may alias the upstream first_v; null in the first layer
  float* partials = nullptr;  // [CTAs, heads + kWeightSums]: set by the launcher
  float* sums;       // [heads + kWeightSums]: gradients of q_gain, then of first_weight; or null
  Fp8Copy qkv_copy;  // only in bf16 with in.inverse_rms
};

// q, k and v are contiguous. Null v: not written, since it is unchanged in qkv. Either heads or KV
// may be 0.
void qk_norm_rope_forward(const QkvShape& shape, const QkNormRopeInputs& in, void* q, void* k,
                          void* v, Dtype dtype, Stream stream);
// Overwrites the projection `qkv` of unscaled rows with what qkv_proj_norm_rope_hopper.h writes,
// and writes row_scale/rms to inverse_rms. bf16 or fp16, heads of at most kMaxRotatedHead; in.qkv
// and in.inverse_rms are not read.
constexpr int kMaxRotatedHead = 128;
void qk_norm_rope_in_place(const QkvShape& shape, QkNormRopeInputs in, void* qkv,
                           float* inverse_rms, Dtype dtype, Stream stream);
// Copies heads [tokens, heads, hd] to contiguous ones; keys also with QkvInputs::key_offset.
void copy_heads(const QkvShape& shape, const HeadVectors& from, int heads, bool key_offset,
                void* to, Dtype dtype, Stream stream);
void qk_norm_rope_backward(const QkvShape& shape, const QkNormRopeInputs& in,
                           const QkNormRopeUpstream& upstream, QkNormRopeGradients out, Dtype dtype,
                           const Workspace& workspace, Stream stream);

}  // namespace tg::cuda
