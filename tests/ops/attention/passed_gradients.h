#pragma once
#include <memory>

#include "ops/passed_gradients.h"

namespace tg::test {

// Returns what a head gate finds where the QKV projection takes the gradient of the gate's input.
inline PassedGradientsPtr taken_gate_x() {
  return std::make_shared<PassedGradients>(PassedGradients{.takes_gate_x = true});
}

}  // namespace tg::test
