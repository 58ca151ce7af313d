#pragma once
#include <ATen/ATen.h>

namespace tg {

// What changes from step to step, as scalars on the device [] fp32: no update waits for the host,
// and a captured update reads the next step's values.
struct StepScalars {
  at::Tensor lr_scale;  // factor on every base learning rate
  at::Tensor momentum;  // Muon's
  at::Tensor skip;      // 1: gradients are not finite, leave weights and state as they are; else 0
};

}  // namespace tg
