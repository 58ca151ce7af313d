// Tests the kernels of ops/attention/gates/xsa.h against the reference in fp64 on the CPU.
#include <torch/csrc/autograd/autograd.h>

#include "ops/attention/gates/xsa.h"
#include "ops/fused.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

class ExclusiveAttentionGpu : public test::OnGpu<::testing::TestWithParam<at::ScalarType>> {};

struct Shape {
  std::int64_t tokens, heads, kv_heads, head_dim;
};

struct Results {
  at::Tensor out, dy, dv;
};

struct Inputs {
  // packed_v has one head more than v, which is a view into it as in the model.
  at::Tensor y, packed_v, d_out;

  Inputs(const Shape& shape, at::ScalarType dtype)
      : y(test::normal({2, shape.tokens, shape.heads, shape.head_dim}, 1, dtype)),
        packed_v(test::normal({2, shape.tokens, shape.kv_heads + 1, shape.head_dim}, 2, dtype)),
        d_out(test::normal({2, shape.tokens, shape.heads, shape.head_dim}, 3, dtype)) {}

  Results run(at::Device device, at::ScalarType dtype) const {
    const auto leaf = y.to(device, dtype).detach().set_requires_grad(true);
    const auto v = packed_v.to(device, dtype)
                       .detach()
                       .narrow(2, 1, packed_v.size(2) - 1)
                       .set_requires_grad(true);
    const auto out = exclusive_attention(leaf, v);
    const auto gradients = torch::autograd::grad({out}, {leaf, v}, {d_out.to(device, dtype)});
    return {.out = out.detach(), .dy = gradients[0], .dv = gradients[1]};
  }
};

void expect_equal(const Results& found, const Results& expected) {
  EXPECT_TRUE(at::equal(found.out, expected.out));
  EXPECT_TRUE(at::equal(found.dy, expected.dy));
  EXPECT_TRUE(at::equal(found.dv, expected.dv));
}

TEST_P(ExclusiveAttentionGpu, OutputAndGradientsMatchTheReference) {
  const auto dtype = GetParam();
  // One rounding of the output, and about a hundred fp32 roundings of terms of size four.
  const double rounding = dtype == at::kFloat ? 0x1p-23 : dtype == at::kHalf ? 0x1p-11 : 0x1p-8;
  constexpr double kTermsError = 100 * 4 * 0x1p-24;
  const Shape shapes[] = {
      // The record's and the speedrun's shapes.
      {.tokens = 160, .heads = 8, .kv_heads = 4, .head_dim = 64},
      {.tokens = 77, .heads = 6, .kv_heads = 6, .head_dim = 128},
      // Idle lanes and heads.
      {.tokens = 1, .heads = 3, .kv_heads = 3, .head_dim = 16},
      {.tokens = 13, .heads = 10, .kv_heads = 5, .head_dim = 48},
      // More tokens than the grid has warps.
      {.tokens = 9001, .heads = 2, .kv_heads = 1, .head_dim = 32},
      // The largest head in half precision.
      {.tokens = 9, .heads = 4, .kv_heads = 1, .head_dim = 256},
  };
  for (const auto& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.heads << " heads of " << shape.head_dim);
    Inputs inputs(shape, dtype);
    inputs.packed_v.select(1, 0).zero_();  // a zero value changes nothing and gets no gradient
    const auto found = inputs.run(test::kGpu, dtype), exact = inputs.run(at::kCPU, at::kDouble);
    for (const auto& tensor : {found.out, found.dy, found.dv}) {
      EXPECT_EQ(tensor.scalar_type(), dtype);
    }
    EXPECT_TRUE(test::is_close(found.out.cpu(), exact.out, rounding, kTermsError));
    EXPECT_TRUE(test::is_close(found.dy.cpu(), exact.dy, rounding, kTermsError));
    EXPECT_TRUE(test::is_close(found.dv.cpu(), exact.dv, rounding, kTermsError));
  }
}

TEST_P(ExclusiveAttentionGpu, GivesTheSameBitsAgain) {
  const Inputs inputs({.tokens = 700, .heads = 8, .kv_heads = 4, .head_dim = 64}, GetParam());
  expect_equal(inputs.run(test::kGpu, GetParam()), inputs.run(test::kGpu, GetParam()));
}

TEST_P(ExclusiveAttentionGpu, OtherWidthsRunAsTheReference) {
  const Inputs inputs({.tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 18}, GetParam());
  const auto found = inputs.run(test::kGpu, GetParam());
  set_fused(false);
  const auto reference = inputs.run(test::kGpu, GetParam());
  set_fused(true);
  expect_equal(found, reference);
}

// In fp16 they are zero.
class ExclusiveAttentionOfTinyValuesGpu : public ExclusiveAttentionGpu {};

TEST_P(ExclusiveAttentionOfTinyValuesGpu, ValuesBelowTheSmallestNormAreScaledByAConstant) {
  Inputs inputs({.tokens = 5, .heads = 4, .kv_heads = 2, .head_dim = 64}, GetParam());
  inputs.packed_v.mul_(1e-14);
  const auto found = inputs.run(test::kGpu, GetParam()), exact = inputs.run(at::kCPU, at::kDouble);
  const auto expect_close = [](const at::Tensor& of_gpu, const at::Tensor& right) {
    const double largest = right.abs().max().item<double>();
    EXPECT_TRUE(test::is_close(of_gpu.cpu(), right, 0x1p-8, 1e-5 * largest));
  };
  expect_close(found.out, exact.out);
  expect_close(found.dy, exact.dy);
  expect_close(found.dv, exact.dv);
}

std::string name_of(const testing::TestParamInfo<at::ScalarType>& tested) {
  return c10::toString(tested.param);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ExclusiveAttentionGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf), name_of);
INSTANTIATE_TEST_SUITE_P(Dtypes, ExclusiveAttentionOfTinyValuesGpu,
                         ::testing::Values(at::kFloat, at::kBFloat16), name_of);

}  // namespace
}  // namespace tg
