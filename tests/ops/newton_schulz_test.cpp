#include "ops/optim/newton_schulz.h"

#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr std::int64_t kSteps = 5;

double polynomial(double s, std::int64_t steps) {
  for (std::int64_t i = 0; i < steps; ++i) {
    s = 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
  }
  return s;
}

// The iteration keeps the singular vectors and sends each singular value through the polynomial.
at::Tensor by_singular_values(const at::Tensor& x, std::int64_t steps) {
  const auto [u, s, vh] = at::linalg_svd(x, /*full_matrices=*/false);
  auto values = test::values_of(s / (x.norm() + 1e-7));
  for (auto& value : values) value = polynomial(value, steps);
  return at::matmul(u * test::tensor_of(values, s.sizes()), vh);
}

const std::vector<std::vector<std::int64_t>> kShapes = {{24, 24}, {16, 48}, {48, 16}, {1, 9}};

TEST(NewtonSchulz, SendsSingularValuesThroughThePolynomial) {
  for (const auto& shape : kShapes) {
    const auto x = test::normal(shape, 1);
    for (const std::int64_t steps : {1, 3, 5}) {
      // Rounding of 1e-16 grows by up to 3.4445 a step.
      EXPECT_TRUE(test::is_close(newton_schulz(x, steps), by_singular_values(x, steps), 0, 1e-11));
    }
  }
}

TEST(NewtonSchulz, SingularValuesEndNearOne) {
  for (const auto& shape : {std::vector<std::int64_t>{64, 256}, {256, 64}, {96, 200}}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto x = test::normal(shape, 2, dtype);
      const auto y = newton_schulz(x, kSteps);
      ASSERT_EQ(y.scalar_type(), dtype);
      ASSERT_EQ(y.sizes(), x.sizes());
      const auto s = std::get<1>(at::linalg_svd(y.to(at::kDouble), false));
      EXPECT_GT(s.min().item<double>(), 0.6);
      EXPECT_LT(s.max().item<double>(), 1.3);
    }
  }
}

TEST(NewtonSchulz, TransposingAndScalingCommute) {
  const auto x = test::normal({10, 30}, 3);
  EXPECT_TRUE(test::is_close(newton_schulz(x.t(), kSteps), newton_schulz(x, kSteps).t(), 0, 1e-12));
  // Exact but for the 1e-7 beside the norm.
  EXPECT_TRUE(test::is_close(newton_schulz(x * 1000, kSteps), newton_schulz(x, kSteps), 0, 1e-5));
}

// What reads it next takes rows; a transpose of a whole bank would be a pass of its own.
TEST(NewtonSchulz, ATallMatrixIsWrittenRowByRow) {
  for (const auto& shape : kShapes)
    EXPECT_TRUE(newton_schulz(test::normal(shape, 6), kSteps).is_contiguous());
}

TEST(NewtonSchulz, PaddingChangesNothing) {
  for (const auto& shape : kShapes) {
    const auto x = test::normal(shape, 5);
    EXPECT_TRUE(test::is_close(newton_schulz(x, kSteps, 10), newton_schulz(x, kSteps), 0, 1e-12));
  }
}

TEST(NewtonSchulz, EveryMatrixOfABatchStandsAlone) {
  auto x = test::normal({2, 3, 12, 20}, 4);
  x[0][1] *= 1e6;
  x[1][0] *= 0;
  const auto y = newton_schulz(x, kSteps);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_TRUE(test::is_close(y[i][j], newton_schulz(x[i][j], kSteps), 0, 1e-12));
    }
  }
  EXPECT_TRUE(test::is_same(y[1][0], at::zeros({12, 20}, at::kDouble)));
}

}  // namespace
}  // namespace tg
