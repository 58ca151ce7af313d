#include <gtest/gtest.h>

#include "run_log/token_watch.h"

namespace tg {
namespace {

// So many steps of 100 ms, each of which waits for a part of that → the steps that warned.
std::vector<std::int64_t> warnings(int steps, double waited_ms_a_step) {
  StallWatch watch;
  std::vector<std::int64_t> warned;
  for (int step = 1; step <= steps; ++step) {
    if (watch.after_step(step, step * waited_ms_a_step, step * 100.0)) warned.push_back(step);
  }
  return warned;
}

TEST(StallWatch, IsSilentBelowATwentiethOfTheTime) {
  EXPECT_EQ(warnings(1000, 0), std::vector<std::int64_t>());
  EXPECT_EQ(warnings(1000, 4.9), std::vector<std::int64_t>());
}

TEST(StallWatch, WarnsAboveItEverMoreSeldom) {
  EXPECT_EQ(warnings(1000, 6), (std::vector<std::int64_t>{100, 300, 700}));
}

TEST(StallWatch, ALongStallIsToldAtOnceWithItsNumbers) {
  StallWatch watch;
  EXPECT_FALSE(watch.after_step(1, 1, 100));
  const auto stalled = watch.after_step(2, 3001, 3200);
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->first_step, 1);
  EXPECT_EQ(stalled->last_step, 2);
  EXPECT_EQ(stalled->waited_ms, 3001);
  EXPECT_EQ(stalled->elapsed_ms, 3200);
  EXPECT_FALSE(watch.after_step(3, 3002, 3300));
}

}  // namespace
}  // namespace tg
