#pragma once
#include <ATen/ATen.h>

namespace tg {

// How the artifact stores a tensor, where it has more elements than pass unquantised.
enum class Quantization { int6, int8, keep_fp32 };

// Symmetric quantisation after training: w ≈ q·scale, without gradient, on the weight's device; the
// host never waits for the device. Weights are converted to fp32 first and must be finite. The
// results equal torch.quantile's and torch.round's to the bit, on a GPU the CPU's.
struct QuantizedWeight {
  at::Tensor q;      // int8, the weight's shape
  at::Tensor scale;  // [rows] fp16; of quantize_int8 of other than matrices [] fp32
};

// A matrix [rows, columns], at least one column, in six bits a weight. For a percentile p of each
// row's |w| (linear interpolation): s = fp16(max(percentile/31, 1/31)), q = clamp(round(w/s), ±31).
// All rows take the one p of {.999, .9995, .9999, .99999, 1} with the least mean squared error, the
// first of equals.
QuantizedWeight quantize_int6(const at::Tensor& matrix);

// Eight bits a weight, clipped at the percentile .9999984 of |w|. A matrix row by row:
// s = max(clip/127, 1/127), stored as fp16 after q = round(clipped w/s). Other shapes (up to 2²⁴
// elements, at least one) as a whole: s = clip/127, or 1 where that is 0.
QuantizedWeight quantize_int8(const at::Tensor& weight);

// A gate's rows [rows, columns] in eight bits a weight: s = fp16(max|row|/127), at least fp16's
// smallest positive number, q = clamp(round(w/s), ±127).
QuantizedWeight quantize_gate_rows(const at::Tensor& matrix);

// q·scale in fp32, [rows, …] by its rows or by one scale.
at::Tensor dequantize(const QuantizedWeight& weight);

}  // namespace tg
