#pragma once
// Fixture of kernel tests: skips them without a GPU or in a build without kernels.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "ops/fused.h"

namespace tg::test {

// Where these tests' tensors are. tests/emulation has another, on which the kernels run as well.
inline constexpr auto kGpu = at::kCUDA;

// Base is ::testing::Test or a TestWithParam.
template <class Base = ::testing::Test>
class OnGpu : public Base {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    if (!use_kernels(at::ones({1}, kGpu))) GTEST_SKIP() << "built without kernels";
  }
};

}  // namespace tg::test
