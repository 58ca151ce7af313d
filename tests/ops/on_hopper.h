#pragma once
// Fixture of tests that require a Hopper GPU: skips them elsewhere.
#include "tests/ops/on_gpu.h"

namespace tg::test {

// Base is ::testing::Test or a TestWithParam.
template <class Base = ::testing::Test>
class OnHopper : public OnGpu<Base> {
 protected:
  void SetUp() override {
    OnGpu<Base>::SetUp();
    if (this->IsSkipped()) return;
    if (!use_hopper_kernels(at::ones({1}, at::TensorOptions(kGpu).dtype(at::kBFloat16))))
      GTEST_SKIP() << "no Hopper GPU";
  }
};

}  // namespace tg::test
