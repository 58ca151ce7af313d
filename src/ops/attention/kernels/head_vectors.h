#pragma once
// Tensors of heads [B, T, heads, hd] as the kernels read them: strided, often views of the QKV
// projection.
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/attention/kernels/token_weights_kernel.h"
#include "ops/kernels.h"

namespace tg {

// Returns the number of elements in 16 bytes.
inline std::int64_t pack_size(const at::Tensor& x) {
  return 16 / x.element_size();
}
inline bool supports_head_dim(std::int64_t head_dim, const at::Tensor& x) {
  return head_dim % pack_size(x) == 0 && head_dim <= cuda::kMaxPacksPerHead * pack_size(x);
}

// Whether all B·T tokens of x [B, T, …] have one stride, and that stride.
inline bool has_token_stride(const at::Tensor& x) {
  return x.size(0) == 1 || x.size(1) == 1 || x.stride(0) == x.size(1) * x.stride(1);
}
inline std::int64_t token_stride(const at::Tensor& x) {
  return x.stride(x.size(1) == 1 ? 0 : 1);
}

// Returns x itself if the kernels can read it with its strides, else a contiguous copy; undefined
// if x is.
inline at::Tensor readable_heads(const at::Tensor& x_bthd) {
  if (!x_bthd.defined()) return x_bthd;
  const auto pack = pack_size(x_bthd);
  const bool aligned_strides =
      x_bthd.stride(0) % pack == 0 && x_bthd.stride(1) % pack == 0 && x_bthd.stride(2) % pack == 0;
  const bool readable =
      x_bthd.stride(3) == 1 && has_token_stride(x_bthd) && aligned_strides && is_aligned(x_bthd);
  return readable ? x_bthd : x_bthd.clone(at::MemoryFormat::Contiguous);
}

// readable_heads() of x [B, T, KV·hd] viewed as [B, T, KV, hd].
inline at::Tensor readable_heads(const at::Tensor& x_btd, std::int64_t heads) {
  return x_btd.defined() ? readable_heads(x_btd.unflatten(-1, {heads, -1})) : x_btd;
}

// Makes the kernels' view of a tensor from readable_heads(), which may be undefined.
inline cuda::HeadVectors head_vectors(const at::Tensor& x_bthd) {
  if (!x_bthd.defined()) return {};
  return {const_data(x_bthd), token_stride(x_bthd), x_bthd.stride(2)};
}

// Returns rows x [B, T, D] as the kernels can read their heads, the first ones of a row: x itself
// or a contiguous copy. D is a multiple of pack_size(x).
inline at::Tensor readable_rows(const at::Tensor& x_btd) {
  const auto pack = pack_size(x_btd);
  const bool readable = x_btd.stride(2) == 1 && has_token_stride(x_btd) &&
                        token_stride(x_btd) % pack == 0 && is_aligned(x_btd);
  return readable ? x_btd : x_btd.clone(at::MemoryFormat::Contiguous);
}
// Makes the kernels' view of the heads of readable_rows().
inline cuda::HeadVectors head_vectors(const at::Tensor& x_btd, std::int64_t head_dim) {
  return {const_data(x_btd), token_stride(x_btd), head_dim};
}

// Returns numbers x [B, T, n] as the kernels can read them: x itself or a copy, in `dtype`;
// undefined if x is.
inline at::Tensor readable_numbers(const at::Tensor& x_btn, at::ScalarType dtype) {
  if (!x_btn.defined()) return x_btn;
  const auto x = x_btn.to(dtype);
  return x.stride(2) == 1 && has_token_stride(x) ? x : x.contiguous();
}
// Makes the kernels' view of readable_numbers(), which may be undefined.
inline cuda::TokenNumbers token_numbers(const at::Tensor& x_btn) {
  if (!x_btn.defined()) return {};
  return {const_data(x_btn), token_stride(x_btn)};
}

// Makes the shape for attention's output y [B, T, heads, hd] and the values v [B, T, KV, hd]; if v
// is undefined, each query head is a group of its own.
inline cuda::ExclusiveShape exclusive_shape(const at::Tensor& y, const at::Tensor& v) {
  return {.tokens = static_cast<int>(y.size(0) * y.size(1)),
          .heads = static_cast<int>(y.size(2)),
          .kv_heads = static_cast<int>((v.defined() ? v : y).size(2)),
          .head_dim = static_cast<int>(y.size(3))};
}

}  // namespace tg
