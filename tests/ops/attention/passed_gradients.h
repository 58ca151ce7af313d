#pragma once
#include <memory>

#include "ops/passed_gradients.h"

namespace tg::test {

// A head gate's gradients as before a QKV projection that takes that of the gate's input.
inline PassedGradientsPtr taken_gate_x() {
  return std::make_shared<PassedGradients>(PassedGradients{.takes_gate_x = true});
}

}  // namespace tg::test
