#include "optim/loss_scale.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

// Updates `steps` times, with an overflow in each or in none.
double after(LossScale& scale, std::int64_t steps, bool overflow) {
  for (std::int64_t i = 0; i < steps; ++i) scale.update(at::full({}, overflow ? 1.0 : 0.0));
  return scale.value().item<double>();
}

TEST(LossScale, DoublesAfterTwoThousandGoodStepsAndHalvesAtAnOverflow) {
  LossScale scale(at::kCPU, /*tokens=*/1024);
  EXPECT_EQ(scale.value().item<double>(), 65536);
  EXPECT_EQ(after(scale, 1999, false), 65536);
  EXPECT_EQ(after(scale, 1, false), 131072);
  EXPECT_EQ(after(scale, 1999, false), 131072);
  EXPECT_EQ(after(scale, 1, true), 65536);  // and the count begins anew
  EXPECT_EQ(after(scale, 1999, false), 65536);
  EXPECT_EQ(after(scale, 1, false), 131072);
}

TEST(LossScale, MultipliesATokensGradientAlikeHoweverManyTokensAStepHas) {
  for (const auto& [tokens, unit] :
       {std::pair{1, 1.0}, {2047, 1.0}, {98304, 64.0}, {786432, 512.0}}) {
    LossScale scale(at::kCPU, tokens);
    EXPECT_EQ(scale.value().item<double>(), 65536);
    EXPECT_EQ(scale.gradient_scale().item<double>(), 65536 * unit) << tokens;
    const auto gradient = at::full({}, 65536 * unit);
    scale.unscale({gradient});
    EXPECT_EQ(gradient.item<double>(), 1);
    EXPECT_EQ(after(scale, 20, true), 1);
    EXPECT_EQ(scale.gradient_scale().item<double>(), unit);
  }
}

TEST(LossScale, DoesNotFallBelowOne) {
  LossScale scale(at::kCPU, /*tokens=*/1024);
  EXPECT_EQ(after(scale, 16, true), 1);
  EXPECT_EQ(after(scale, 3, true), 1);
}

TEST(LossScale, UnscalesInPlaceAndKeepsItsAddress) {
  LossScale scale(at::kCPU, /*tokens=*/1024);
  const auto* const address = scale.gradient_scale().const_data_ptr();
  after(scale, 2, true);
  const auto gradient = at::full({3}, 16384.0 * 3);
  scale.unscale({gradient, gradient.slice(0, 0, 0)});
  EXPECT_TRUE(at::equal(gradient, at::full({3}, 3.0)));
  EXPECT_EQ(scale.gradient_scale().const_data_ptr(), address);
  scale.unscale({});
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale scale(at::kCPU, 1024), resumed(at::kCPU, 1024);
  after(scale, 1, true);
  after(scale, 1500, false);
  for (std::size_t i = 0; i < scale.state().size(); ++i) {
    EXPECT_EQ(scale.state()[i].first, resumed.state()[i].first);
    resumed.state()[i].second.copy_(scale.state()[i].second);
  }
  EXPECT_EQ(after(resumed, 499, false), 32768);
  EXPECT_EQ(after(resumed, 1, false), 65536);
}

}  // namespace
}  // namespace tg
