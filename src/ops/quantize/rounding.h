#pragma once
// Shared parts of the quantisers.
#include <ATen/ATen.h>

#include "ops/quantize/quantize.h"

namespace tg {

// Divides by a tensor on the device: CUDA divides by a host number as a multiplication with its
// inverse, which rounds twice.
at::Tensor divide(const at::Tensor& x, double divisor);

// clamp(round(x/scale), low, high), halves to even; in x's dtype.
at::Tensor round_to_levels(const at::Tensor& x, const at::Tensor& scale, double low, double high);

// A scale in fp16, kept within fp16's positive numbers, 2⁻²⁴ to 65504: to divide by it gives no
// NaN, and what is divided by is what is stored.
at::Tensor fp16_scale(const at::Tensor& scale);

// Each row of a matrix in fp32 by its own scale, max |x|/divisor in fp16.
QuantizedWeight quantize_rows(const at::Tensor& matrix, double divisor, double low, double high);

// Waits for the device.
bool all_finite(const at::Tensor& x);

// ± levels of symmetric quantisation in `bits` bits.
inline double symmetric_levels(std::int64_t bits) {
  return static_cast<double>((std::int64_t{1} << (bits - 1)) - 1);
}

}  // namespace tg
