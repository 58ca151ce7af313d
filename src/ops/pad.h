#pragma once
// Zero padding, so that row sizes are multiples of what GPU kernels access.
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// Returns the multiple, in elements, to which rows are padded: 8 (16 bytes) in half precision on a
// GPU, since without it GEMMs are slow and most kernels are unsupported; else 1.
std::int64_t row_multiple(at::Device device, at::ScalarType dtype);
std::int64_t round_up(std::int64_t size, std::int64_t multiple);

// Pads every dimension of x with trailing zeros to `sizes`. Returns x itself if it already has
// these sizes or is undefined.
at::Tensor pad_to(const at::Tensor& x, at::IntArrayRef sizes);
// Pads only the last dimension with trailing zeros.
at::Tensor pad_last(const at::Tensor& x, std::int64_t size);
// Pads each of the `heads` heads in dimension `dim` to `head_dim`.
at::Tensor pad_heads(const at::Tensor& x, std::int64_t dim, std::int64_t heads,
                     std::int64_t head_dim);

}  // namespace tg
