#pragma once
// Fixture of kernel tests: skips them without a GPU or in a build without kernels.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "ops/fused.h"

namespace tg::test {

// The device of the tests' tensors. tests/emulation replaces it with one whose kernels run on the
// CPU.
inline constexpr auto kGpu = at::kCUDA;

// Base is ::testing::Test or a TestWithParam.
template <class Base = ::testing::Test>
class OnGpu : public Base {
 protected:
  // HOPPER=0 tests what other GPUs run. Process-wide choices of earlier tests, also of one that
  // threw, are undone.
  void SetUp() override {
    set_fused(true);
    auto& context = at::globalContext();  // what use_attention() changes
    context.setSDPUseCuDNN(true);
    context.setSDPUseFlash(true);
    context.setSDPUseMemEfficient(true);
    context.setSDPUseMath(true);
    const char* const hopper = std::getenv("HOPPER");
    set_hopper(hopper == nullptr || std::string_view(hopper) != "0");
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    if (!use_kernels(at::ones({1}, kGpu))) GTEST_SKIP() << "built without kernels";
  }
};

}  // namespace tg::test
