#include "ops/optim/muon_update.h"

#include <gtest/gtest.h>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

at::Tensor scalar(double value) {
  return at::full({}, value, at::kFloat);
}

TEST(MuonUpdate, MomentumLooksOneStepAhead) {
  const auto b = test::normal({3, 5}, 1), g = test::normal({3, 5}, 2);
  const auto expected_b = 0.75 * b + 0.5 * g;
  const auto ahead = nesterov_momentum(b, g, scalar(0.75), scalar(0.5), at::full({}, false));
  EXPECT_TRUE(test::is_close(b, expected_b, 1e-15, 1e-15));
  EXPECT_TRUE(test::is_close(ahead, 0.75 * expected_b + 0.5 * g, 1e-15, 1e-15));
}

TEST(MuonUpdate, AnAverageOfGradientsLooksOneStepAhead) {
  const auto b = test::normal({3, 5}, 1), g = test::normal({3, 5}, 2);
  const auto expected_b = 0.75 * b + 0.25 * 0.5 * g;
  const auto ahead =
      averaged_momentum(b, g, scalar(0.75), scalar(0.5), at::full({}, false), at::kDouble);
  EXPECT_TRUE(test::is_close(b, expected_b, 1e-15, 1e-15));
  EXPECT_TRUE(test::is_close(ahead, 0.75 * expected_b + 0.25 * 0.5 * g, 1e-15, 1e-15));
}

TEST(MuonUpdate, ASkippedGradientIsNotEvenRead) {
  const auto b = test::normal({3, 5}, 1, at::kBFloat16);
  const auto before = b.clone();
  const auto g = at::full({3, 5}, std::nan(""), at::kFloat);
  const auto ahead = nesterov_momentum(b, g, scalar(0.9), scalar(1), at::full({}, true));
  EXPECT_TRUE(test::is_same(b, before));
  EXPECT_TRUE(test::is_same(ahead, before));
}

TEST(MuonUpdate, HalfPrecisionDoesNotRoundTheMomentumFactor) {
  // In bf16 0.99 is 0.98828: a thousand would become 988 instead of the bf16 number closest to 990.
  const auto b = at::full({4}, 1000.0, at::kBFloat16);
  nesterov_momentum(b, at::zeros({4}, at::kBFloat16), scalar(0.99), scalar(1), at::full({}, false));
  EXPECT_EQ(b[0].item<double>(), 992);
}

TEST(MuonUpdate, AStepDecaysAndDescends) {
  const auto p = test::normal({3, 5}, 1), u = test::normal({3, 5}, 2);
  const auto expected = p * (1 - 0.125 * 0.5) - 0.125 * 2 * u;
  decayed_step(p, u, scalar(0.125), 0.5, 2);
  EXPECT_TRUE(test::is_close(p, expected, 1e-15, 1e-15));
}

}  // namespace
}  // namespace tg
