#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/quantize/hessian_factor.h"
#include "ops/quantize/lqer.h"
#include "ops/quantize/quantize.h"

namespace tg {

// A matrix quantized by GPTQ (Frantar et al. 2023): W ≈ q·s with q [rows, columns] within
// ±(2^(bits−1) − 1) and s [rows]; with a correction W ≈ q·s + A·B.
struct GptqWeight {
  QuantizedWeight weight;
  std::int64_t bits;
  std::optional<LowRank> correction;
};

struct GptqOptions {
  double clip_sigmas;  // weights are clipped at this many standard deviations of their row
  std::int64_t bits;   // 2 to 8
  // Sets weights of dead inputs to 0, as the reference implementation does; else they are rounded
  // to nearest.
  bool zero_dead = false;
};

// Quantizes W [rows, columns] (any float dtype) by GPTQ with the factor of its inputs' Hessian, on
// the same device. levels = 2^(bits−1) − 1; each row has s = fp16(clip_sigmas·std/levels), std
// unbiased, or s = max|row|/levels if that underflows in fp16. Column by column in the factor's
// order: q = clamp(round(w/s), ±levels), rounding half to even; e = (w − q·s)/U_jj, and e·U_j is
// subtracted from later columns, for later blocks of 128 columns by one fp32 GEMM. Columns of dead
// inputs do not affect others. Throws an internal error that names `name` if W is not finite.
GptqWeight gptq(const at::Tensor& weight, const HessianFactor& hessian, const GptqOptions& options,
                std::string_view name);

// Quantizes with gptq()'s scales by rounding to nearest, for a matrix without calibration inputs.
GptqWeight round_to_nearest(const at::Tensor& weight, const GptqOptions& options,
                            std::string_view name);

// Adds an LQER correction to the top_k matrices with the largest ‖W − q·s‖ (Frobenius norm; ties:
// the first). quantized[i] is the quantized weights[i].
void correct_largest_errors(const std::vector<at::Tensor>& weights,
                            std::vector<GptqWeight>& quantized, std::int64_t top_k,
                            const LqerOptions& options);

// Returns q·s + A·B in fp32.
inline at::Tensor dequantize(const GptqWeight& weight) {
  const at::Tensor w = dequantize(weight.weight);
  return weight.correction ? w + dequantize(*weight.correction) : w;
}

}  // namespace tg
