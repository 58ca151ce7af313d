#pragma once
// Fixture of tests that require FP8 tensor cores: skips them elsewhere.
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg::test {

inline bool has_fp8_gemms() {
  return use_fp8_gemms(at::ones({1}, at::TensorOptions(kGpu).dtype(at::kBFloat16)));
}

// Normal numbers times `scale` in bf16 on the GPU.
inline at::Tensor bf16_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed,
                              double scale = 1) {
  return (normal({rows, columns}, seed, at::kFloat) * scale).to(kGpu, at::kBFloat16);
}

// Base is ::testing::Test or a TestWithParam.
template <class Base = ::testing::Test>
class OnFp8Gpu : public OnGpu<Base> {
 protected:
  void SetUp() override {
    OnGpu<Base>::SetUp();
    if (!this->IsSkipped() && !has_fp8_gemms()) GTEST_SKIP() << "no FP8 tensor cores";
  }
};

}  // namespace tg::test
