#include "ops/embedding/learned_scale.h"

#include <gtest/gtest.h>

#include "tests/ops/gradcheck.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

TEST(LearnedScale, DifferentiatesTheRowsAndTheScale) {
  const auto x = test::normal({2, 3, 5}, 1), scale = test::normal({1}, 2);
  EXPECT_TRUE(test::is_same(learned_scale(x, scale), x * scale));
  EXPECT_TRUE(test::gradient_is_right([&](const auto& in) { return learned_scale(in, scale); }, x));
  EXPECT_TRUE(test::gradient_is_right([&](const auto& in) { return learned_scale(x, in); }, scale));
}

TEST(LearnedScale, RoundsOnce) {
  const auto x = test::normal({2, 3, 5}, 3).to(at::kBFloat16);
  const auto scale = at::full({}, 1.0 / 3, at::kFloat);
  EXPECT_TRUE(test::is_same(learned_scale(x, scale), (x.to(at::kFloat) * scale).to(at::kBFloat16)));
}

}  // namespace
}  // namespace tg
