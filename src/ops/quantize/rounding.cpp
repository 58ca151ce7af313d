#include "ops/quantize/rounding.h"

namespace tg {

at::Tensor divide(const at::Tensor& x, double divisor) {
  return x / at::full({}, divisor, x.options());
}

at::Tensor round_to_levels(const at::Tensor& x, const at::Tensor& scale, double low, double high) {
  return (x / scale).round().clamp(low, high);
}

at::Tensor fp16_scale(const at::Tensor& scale) {
  constexpr double kSmallest = 1.0 / (1 << 24), kLargest = 65504;
  return scale.clamp(kSmallest, kLargest).to(at::kHalf);
}

QuantizedWeight quantize_rows(const at::Tensor& matrix, double divisor, double low, double high) {
  const at::Tensor scale = fp16_scale(divide(matrix.abs().amax(1), divisor));
  const at::Tensor wide = scale.to(at::kFloat).unsqueeze(1);
  return {round_to_levels(matrix, wide, low, high).to(at::kChar), scale};
}

bool all_finite(const at::Tensor& x) {
  return x.isfinite().all().cpu().const_data_ptr<bool>()[0];
}

}  // namespace tg
