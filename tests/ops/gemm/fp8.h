#pragma once
// FP8 weights for tests.
#include "ops/gemm/linear.h"

namespace tg::test {

// A weight with scale 1 for the input and `dy_scale` for the output gradient, and a zeroed gradient
// buffer.
inline Weight fp8_weight(const at::Tensor& value, double dy_scale = 1) {
  const auto fp32 = value.options().dtype(at::kFloat).requires_grad(false);
  const auto bank = empty_fp8_weights(value.detach().unsqueeze(0));
  round_weights(value.detach().unsqueeze(0), bank);
  const auto scaling = [&](double scale) {
    return Fp8Scaling{at::full({}, scale, fp32), at::zeros({}, fp32),
                      std::make_shared<Fp8Scaling::Cached>()};
  };
  return {value,
          at::zeros(value.sizes(), fp32),
          {.value = bank.value[0],
           .transposed = bank.transposed[0],
           .scale = bank.scale[0],
           .input = scaling(1),
           .output_gradient = scaling(dy_scale),
           .scaled_input = scaling(1)}};
}

}  // namespace tg::test
