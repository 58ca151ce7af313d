#pragma once
// Helpers shared by the quantizers.
#include <ATen/ATen.h>

#include "ops/quantize/quantize.h"

namespace tg {

// Divides by a tensor on the device: for a host scalar, CUDA multiplies by its reciprocal, which
// rounds twice.
at::Tensor divide(const at::Tensor& x, double divisor);

// Returns clamp(round(x/scale), low, high), rounding half to even; in x's dtype.
at::Tensor round_to_levels(const at::Tensor& x, const at::Tensor& scale, double low, double high);

// Rounds a scale to fp16, clamped to fp16's positive range 2⁻²⁴ to 65504: dividing by it gives no
// NaN, and quantization divides by exactly the stored scale.
at::Tensor fp16_scale(const at::Tensor& scale);

// Quantizes each row of an fp32 matrix with its own scale, max|x|/divisor in fp16.
QuantizedWeight quantize_rows(const at::Tensor& matrix, double divisor, double low, double high);

// Synchronizes with the device.
bool all_finite(const at::Tensor& x);

// Largest quantized magnitude of symmetric quantization in `bits` bits.
inline double symmetric_levels(std::int64_t bits) {
  return static_cast<double>((std::int64_t{1} << (bits - 1)) - 1);
}

}  // namespace tg
