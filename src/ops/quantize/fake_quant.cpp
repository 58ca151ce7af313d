#include "ops/quantize/fake_quant.h"

namespace tg {

at::Tensor fake_quant(const at::Tensor& weight, double low) {
  at::Tensor correction;
  {
    const at::NoGradGuard no_grad;
    const auto row_max = weight.abs().amax(-1, /*keepdim=*/true);
    const auto scale = (row_max / 31.0).clamp_min(1.0 / 31.0);
    correction = (weight / scale).round().clamp(low, 31) * scale - weight;
  }
  return weight + correction;
}

}  // namespace tg
