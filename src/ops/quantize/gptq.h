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

// A matrix that GPTQ (Frantar et al. 2023) quantised: W ≈ q·s, q [rows, columns] within
// ±(2^(bits−1) − 1), s [rows]; with a correction W ≈ q·s + A·B.
struct GptqWeight {
  QuantizedWeight weight;
  std::int64_t bits;
  std::optional<LowRank> correction;
};

struct GptqOptions {
  double clip_sigmas;  // weights beyond so many standard deviations of their row are clipped
  std::int64_t bits;   // 2 to 8
  // Weights of dead inputs become 0, as in the reference implementation; else each is rounded by
  // itself.
  bool zero_dead = false;
};

// GPTQ of W [rows, columns], any float dtype, on its device, with the factor of its inputs' Hessian
// (on that device as well). levels = 2^(bits−1) − 1; per row s = fp16(clip_sigmas·std/levels), std
// unbiased. Column by column in the factor's order q = clamp(round(w/s), ±levels), halves to even;
// e = (w − q·s)/U_jj, and later columns lose e·U_j, columns of later blocks of 128 together and in
// fp32. A dead input's column takes part in no other's. A row whose spread fp16 cannot hold has s =
// max|row|/levels. Throws Error(internal), a line that begins with `name`, if W is not finite.
GptqWeight gptq(const at::Tensor& weight, const HessianFactor& hessian, const GptqOptions& options,
                std::string_view name);

// Rounds each weight to nearest, with gptq()'s scales: for a matrix whose inputs were not observed.
GptqWeight round_to_nearest(const at::Tensor& weight, const GptqOptions& options,
                            std::string_view name);

// Adds LQER's correction to the top_k of `quantized` with the greatest ‖W − q·s‖ (Frobenius; of
// equals the first). quantized[i] is of weights[i].
void correct_largest_errors(const std::vector<at::Tensor>& weights,
                            std::vector<GptqWeight>& quantized, std::int64_t top_k,
                            const LqerOptions& options);

// q·s + A·B in fp32.
inline at::Tensor dequantize(const GptqWeight& weight) {
  const at::Tensor w = dequantize(weight.weight);
  return weight.correction ? w + dequantize(*weight.correction) : w;
}

}  // namespace tg
