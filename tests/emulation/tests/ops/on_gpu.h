#pragma once
// Replaces tests/ops/on_gpu.h when the kernels run on the CPU.
#include <gtest/gtest.h>

#include "ops/fused.h"

namespace tg::test {

inline constexpr auto kGpu = at::kCPU;

template <class Base = ::testing::Test>
class OnGpu : public Base {};

}  // namespace tg::test
