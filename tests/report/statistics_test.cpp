#include "report/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tg {
namespace {

TEST(Statistics, ASampleHasMeanDeviationAndRange) {
  const auto sample = sample_of(std::vector<double>{2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(sample.count, 8);
  EXPECT_DOUBLE_EQ(sample.mean, 5);
  EXPECT_DOUBLE_EQ(sample.deviation, std::sqrt(32.0 / 7));
  EXPECT_EQ(sample.least, 2);
  EXPECT_EQ(sample.greatest, 9);
  EXPECT_TRUE(std::isnan(sample_of(std::vector<double>{3}).deviation));
}

TEST(Statistics, StudentsDistributionIsTheTablesOne) {
  EXPECT_NEAR(student_cdf(1, 1), 0.75, 1e-14);                      // atan(1)/π + 1/2
  EXPECT_NEAR(student_cdf(2, 2), 0.5 + 1 / std::sqrt(6.0), 1e-14);  // t/(2√(2 + t²)) + 1/2
  EXPECT_NEAR(student_cdf(-2.776445105, 4), 0.025, 1e-9);
  EXPECT_NEAR(student_cdf(3.364929999, 5), 0.99, 1e-9);
  EXPECT_NEAR(student_cdf(1.959963985, 1e6), 0.975, 1e-6);  // nearly the normal distribution
  EXPECT_EQ(student_cdf(0, 7), 0.5);
  EXPECT_NEAR(student_cdf(-40, 3) / 1.719e-5, 1, 1e-3);
  EXPECT_EQ(student_cdf(INFINITY, 3), 1);
  EXPECT_TRUE(std::isnan(student_cdf(NAN, 3)));
}

// Published examples of Welch's test.
TEST(Statistics, WelchsTestComparesTwoSamples) {
  const auto p = [](std::vector<double> a, std::vector<double> b) {
    const double found = p_different(sample_of(a), sample_of(b));
    return found;
  };
  EXPECT_NEAR(
      p({27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4},
        {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4}),
      0.021378001462867, 1e-12);
  EXPECT_NEAR(p({3.0, 4.0, 1.0, 2.1}, {490.2, 340.0, 433.9}), 0.010751561149785, 1e-12);
  EXPECT_DOUBLE_EQ(p({1, 2, 4}, {3, 5}), p({3, 5}, {1, 2, 4}));
  EXPECT_EQ(p({1, 1}, {1, 1}), 1);
  EXPECT_EQ(p({1, 1}, {2, 2}), 0);
  EXPECT_TRUE(std::isnan(p({1}, {2, 3})));
}

TEST(Statistics, AMeanIsTestedAgainstABound) {
  // t = (3.278 - 3.28) / (0.001 / √4) = -4 with 3 degrees of freedom.
  const Sample sample{.count = 4, .mean = 3.278, .deviation = 0.001};
  EXPECT_NEAR(p_below(sample, 3.28), student_cdf(-4, 3), 1e-12);
  EXPECT_NEAR(p_below(sample, 3.276), 1 - p_below(sample, 3.28), 1e-12);
  EXPECT_EQ(p_below({.count = 3, .mean = 1}, 2), 0);
  EXPECT_EQ(p_below({.count = 3, .mean = 2}, 2), 1);
}

}  // namespace
}  // namespace tg
