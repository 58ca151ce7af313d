#include "ops/attention/gates/weighted_heads.h"

#include "ops/attention/gates/xsa.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

class WeightedHeads : public testing::Test {
 protected:
  const at::Tensor y_ = test::normal({1, 3, 4, 3}, 1), v_ = test::normal({1, 3, 2, 3}, 2),
                   exclusive_ = test::normal({1, 3, 4}, 3), gate_ = test::normal({1, 3, 4}, 4);
};

TEST_F(WeightedHeads, TheGateScalesWhatTheExclusiveWeightLeaves) {
  const auto left = weighted_exclusive_attention(y_, v_, exclusive_);
  EXPECT_TRUE(test::is_same(weighted_heads(y_, v_, {.exclusive = exclusive_}), left));
  EXPECT_TRUE(test::is_same(weighted_heads(y_, {}, {.gate = gate_}), y_ * gate_.unsqueeze(-1)));
  EXPECT_TRUE(test::is_same(weighted_heads(y_, v_, {.exclusive = exclusive_, .gate = gate_}),
                            left * gate_.unsqueeze(-1)));
  EXPECT_TRUE(test::is_same(weighted_heads(y_, {}, {}), y_));
}

TEST_F(WeightedHeads, GradientIsRight) {
  EXPECT_TRUE(test::gradient_is_right(
      [](const auto& y, const auto& v, const auto& exclusive, const auto& gate) {
        return weighted_heads(y, v, {.exclusive = exclusive, .gate = gate});
      },
      y_, v_, exclusive_, gate_));
}

}  // namespace
}  // namespace tg
