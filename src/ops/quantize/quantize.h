#pragma once
#include <ATen/ATen.h>

namespace tg {

// Storage format in the artifact of a tensor large enough to be quantized.
enum class Quantization { int6, int8, keep_fp32 };

// Symmetric post-training quantization: w ≈ q·scale, without gradient, on the weight's device and
// without host synchronization. Weights are converted to fp32 first and must be finite. Results are
// bitwise equal to those computed with torch.quantile and torch.round, and equal on GPU and CPU.
struct QuantizedWeight {
  at::Tensor q;      // int8, the weight's shape
  at::Tensor scale;  // [rows] fp16; [] fp32 if quantize_int8 quantized a non-matrix
};

// Quantizes a matrix [rows, columns], columns ≥ 1, to 6 bits per weight. For a percentile p of each
// row's |w| (linear interpolation): s = fp16(max(percentile/31, 1/31)), q = clamp(round(w/s), ±31).
// All rows use the p of {.999, .9995, .9999, .99999, 1} with the least mean squared error; ties:
// the first.
QuantizedWeight quantize_int6(const at::Tensor& matrix);

// Quantizes to 8 bits per weight, clipped at the percentile .9999984 of |w|. Matrices per row: s =
// max(clip/127, 1/127), stored as fp16 after q = round(clipped w/s). Other shapes (1 to 2²⁴
// elements) per tensor: s = clip/127, or 1 if that is 0.
QuantizedWeight quantize_int8(const at::Tensor& weight);

// Quantizes a gate's matrix [rows, columns] to 8 bits per weight: s = fp16(max|row|/127), at least
// fp16's smallest positive number, q = clamp(round(w/s), ±127).
QuantizedWeight quantize_gate_rows(const at::Tensor& matrix);

// Returns q·scale in fp32; scale is per row [rows] or one [].
at::Tensor dequantize(const QuantizedWeight& weight);

}  // namespace tg
