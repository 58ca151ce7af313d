#pragma once
// Replaces tests/ops/on_gpu.h when the kernels run on the CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "ops/fused.h"

namespace tg::test {

inline constexpr auto kGpu = at::kCPU;

template <class Base = ::testing::Test>
class OnGpu : public Base {
 protected:
  // HOPPER=0 tests what GPUs other than Hopper's run.
  void SetUp() override {
    set_fused(true);  // an earlier test may have thrown before it did
    const char* const hopper = std::getenv("HOPPER");
    set_hopper(hopper == nullptr || std::string_view(hopper) != "0");
  }
};

}  // namespace tg::test
