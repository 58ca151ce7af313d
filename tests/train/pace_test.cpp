#include <gtest/gtest.h>

#include "train/run_clock.h"

namespace tg {
namespace {

TEST(Pace, IsUnknownUntilAFewStepsHaveEnded) {
  Pace pace;
  for (int steps = 0; steps < 3; ++steps) {
    EXPECT_FALSE(pace.known());
    pace.ended(steps, 100.0 * steps);
  }
  EXPECT_FALSE(pace.known());
  pace.ended(3, 300);
  EXPECT_TRUE(pace.known());
}

TEST(Pace, ExpectsTheNextStepsToTakeTheMeanOfTheRecentOnes) {
  Pace pace;
  for (int steps = 0; steps < 6; ++steps) pace.ended(steps, 100.0 * steps);
  EXPECT_DOUBLE_EQ(pace.expected_ms(5), 500);
  EXPECT_DOUBLE_EQ(pace.expected_ms(8), 800);
}

TEST(Pace, ForgetsALongFirstStep) {
  Pace pace;
  pace.ended(0, 0);
  for (int steps = 1; steps < 20; ++steps) pace.ended(steps, 5000 + 100.0 * steps);
  EXPECT_DOUBLE_EQ(pace.expected_ms(22), 5000 + 2200);
  EXPECT_DOUBLE_EQ(pace.tolerance_ms(), 100);
}

TEST(Pace, MayBeOffByTheLongestRecentStep) {
  Pace pace;
  double elapsed = 0;
  for (int steps = 0; steps < 6; ++steps) pace.ended(steps, elapsed += steps == 4 ? 250 : 100);
  EXPECT_DOUBLE_EQ(pace.tolerance_ms(), 250);
}

// Steps between two readings count with their mean.
TEST(Pace, TakesReadingsThatSkipSteps) {
  Pace pace;
  for (int steps = 0; steps < 12; steps += 3) pace.ended(steps, 100.0 * steps);
  EXPECT_DOUBLE_EQ(pace.tolerance_ms(), 100);
  EXPECT_DOUBLE_EQ(pace.expected_ms(10), 1000);
}

}  // namespace
}  // namespace tg
