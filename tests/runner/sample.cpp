// Tests that end in each way, for skips_test.py, which chooses among them by --gtest_filter.
#include <gtest/gtest.h>

TEST(Sample, Passes) {}

TEST(Sample, Fails) {
  FAIL() << "broken on purpose";
}

TEST(Sample, IsSkipped) {
  GTEST_SKIP() << "no GPU";
}

TEST(Sample, IsSkippedToo) {
  GTEST_SKIP() << "no reason that the list has";
}
