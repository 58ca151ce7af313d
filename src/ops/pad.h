#pragma once
// Zeros behind a tensor's elements, so that its rows are multiples of what GPU kernels access.
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Elements to a multiple of which rows are padded: 8 in half precision on a GPU, 16 bytes, below
// which GEMMs are slow and most kernels refuse; else 1.
std::int64_t row_multiple(at::Device device, at::ScalarType dtype);
std::int64_t round_up(std::int64_t size, std::int64_t multiple);

// x with zeros behind it in every dimension, up to `sizes`; x itself where it has them or is
// undefined.
at::Tensor pad_to(const at::Tensor& x, at::IntArrayRef sizes);
// pad_to() for the last dimension alone.
at::Tensor pad_last(const at::Tensor& x, std::int64_t size);
// Dimension `dim` consists of `heads` heads, each of which is padded to `head_dim`.
at::Tensor pad_heads(const at::Tensor& x, std::int64_t dim, std::int64_t heads,
                     std::int64_t head_dim);

}  // namespace tg
