// The kernels of ops/attention/xsa.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/xsa.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class ExclusiveAttentionGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

// The output and the gradients of y and v. v is a view into a larger tensor, as in the model.
std::vector<at::Tensor> run(at::Tensor y, at::Tensor packed_v, at::Tensor d_out) {
  y = y.detach().set_requires_grad(true);
  const auto v = packed_v.detach().narrow(2, 1, packed_v.size(2) - 1).set_requires_grad(true);
  const auto out = exclusive_attention(y, v);
  auto found = torch::autograd::grad({out}, {y, v}, {d_out});
  found.push_back(out.detach());
  return found;
}

struct Inputs {
  at::Tensor y, packed_v, d_out;

  Inputs(std::int64_t tokens, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
         at::ScalarType dtype)
      : y(test::normal({2, tokens, heads, dim}, 1, dtype)),
        packed_v(test::normal({2, tokens, kv_heads + 1, dim}, 2, dtype)),
        d_out(test::normal({2, tokens, heads, dim}, 3, dtype)) {}

  std::vector<at::Tensor> run(at::Device device, at::ScalarType dtype) const {
    return tg::run(y.to(device, dtype), packed_v.to(device, dtype), d_out.to(device, dtype));
  }
};

TEST_P(ExclusiveAttentionGpu, OutputAndGradientsMatchTheReference) {
  const auto dtype = GetParam();
  // One rounding of the output, and before a hundred in fp32 of terms of size four.
  const double rounding = dtype == at::kFloat ? 0x1p-23 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  constexpr double kTermsError = 100 * 4 * 0x1p-24;
  const std::int64_t shapes[][4] = {
      // tokens, heads, KV heads, head_dim: the record's, the speedrun's, idle lanes and heads, more
      // tokens than the grid has warps, the largest head in half precision.
      {160, 8, 4, 64}, {77, 6, 6, 128},  {1, 3, 3, 16},
      {13, 10, 5, 48}, {9001, 2, 1, 32}, {9, 4, 1, 256},
  };
  for (const auto& [tokens, heads, kv_heads, dim] : shapes) {
    Inputs inputs(tokens, heads, kv_heads, dim, dtype);
    inputs.packed_v.select(1, 0).zero_();  // a value of zero changes nothing and has no gradient
    const auto found = inputs.run(at::kCUDA, dtype), exact = inputs.run(at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), dtype);
      EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], rounding, kTermsError))
          << heads << " heads of " << dim << ", tensor " << i;
    }
  }
}

TEST_P(ExclusiveAttentionGpu, TwiceTheSameBits) {
  const Inputs inputs(700, 8, 4, 64, GetParam());
  const auto once = inputs.run(at::kCUDA, GetParam()), twice = inputs.run(at::kCUDA, GetParam());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(at::equal(once[i], twice[i])) << i;
}

TEST_P(ExclusiveAttentionGpu, OtherWidthsRunAsTheReference) {
  const Inputs inputs(9, 4, 2, 18, GetParam());
  const auto found = inputs.run(at::kCUDA, GetParam());
  set_fused(false);
  const auto reference = inputs.run(at::kCUDA, GetParam());
  set_fused(true);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::equal(found[i], reference[i])) << i;
}

TEST_P(ExclusiveAttentionGpu, ValuesBelowTheSmallestNormAreScaledByAConstant) {
  if (GetParam() == at::kHalf) GTEST_SKIP() << "1e-14 is zero in fp16";
  Inputs inputs(5, 4, 2, 64, GetParam());
  inputs.packed_v.mul_(1e-14);
  const auto found = inputs.run(at::kCUDA, GetParam()), exact = inputs.run(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double largest = exact[i].abs().max().item<double>();
    EXPECT_TRUE(test::is_close(found[i].cpu(), exact[i], 0x1p-8, 1e-5 * largest)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ExclusiveAttentionGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& tested) {
                           return std::string(c10::toString(tested.param));
                         });

}  // namespace
}  // namespace tg
