#include "device/captured_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tg {
namespace {

// What is written to standard error meanwhile.
std::string warnings_of(const std::function<void()>& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

class ReplayedTest : public testing::Test {
 protected:
  Replayed make(at::Device device, bool graphs) {
    return {"the work", {[this] { ran += 'a'; }, [this] { ran += 'b'; }}, device, graphs};
  }
  void run(Replayed& work, int times) {
    for (int i = 0; i < times; ++i) {
      work.run(0);
      work.run(1);
    }
  }
  // In order each time, also after it was told to begin anew.
  void expect_every_part_each_time(Replayed work) {
    run(work, 3);
    EXPECT_EQ(ran, "ababab");
    work.forget();
    run(work, 2);
    EXPECT_EQ(ran, "ababababab");
  }

  std::string ran;
};

TEST_F(ReplayedTest, WithoutGraphsEveryPartRunsEachTime) {
  EXPECT_EQ(warnings_of([&] { expect_every_part_each_time(make(at::kCUDA, false)); }), "");
}

TEST_F(ReplayedTest, OnTheCpuEveryPartRunsEachTime) {
  EXPECT_EQ(warnings_of([&] { expect_every_part_each_time(make(at::kCPU, true)); }), "");
}

// Neither without a GPU nor on its default stream, which is the current one here.
TEST_F(ReplayedTest, WhatCannotBeRecordedRunsAsItIsAfterOneWarning) {
  auto work = make(at::kCUDA, true);
  EXPECT_EQ(warnings_of([&] { run(work, 1); }), "");
  EXPECT_TRUE(work.records());
  const auto warnings = warnings_of([&] { run(work, 1); });
  EXPECT_NE(warnings.find("the work cannot be captured as CUDA graphs ("), std::string::npos)
      << warnings;
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1) << warnings;
  EXPECT_FALSE(work.records());
  EXPECT_EQ(warnings_of([&] {
              run(work, 1);
              work.forget();
              run(work, 2);
            }),
            "");
  EXPECT_EQ(ran, "ababababab");
}

}  // namespace
}  // namespace tg
