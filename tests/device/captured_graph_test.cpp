#include "device/captured_graph.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tg {
namespace {

// Returns what `work` writes to standard error.
std::string warnings_of(const std::function<void()>& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

class CapturedGraphTest : public testing::Test {
 protected:
  CapturedGraph make(at::Device device, bool graphs) {
    return {"the work", {[this] { ran += 'a'; }, [this] { ran += 'b'; }}, device, graphs};
  }
  void run(CapturedGraph& work, int times) {
    for (int i = 0; i < times; ++i) {
      work.run(0);
      work.run(1);
    }
  }
  // Expects all parts to run in order each time, also after invalidate().
  void expect_every_part_each_time(CapturedGraph work) {
    run(work, 3);
    EXPECT_EQ(ran, "ababab");
    work.invalidate();
    run(work, 2);
    EXPECT_EQ(ran, "ababababab");
  }

  std::string ran;
};

TEST_F(CapturedGraphTest, WithoutGraphsEveryPartRunsEachTime) {
  EXPECT_EQ(warnings_of([&] { expect_every_part_each_time(make(at::kCUDA, false)); }), "");
}

TEST_F(CapturedGraphTest, OnTheCpuEveryPartRunsEachTime) {
  EXPECT_EQ(warnings_of([&] { expect_every_part_each_time(make(at::kCPU, true)); }), "");
}

TEST_F(CapturedGraphTest, EveryFormRunsEachTime) {
  auto work = make(at::kCPU, true);
  for (const std::int64_t form : {0, 1, 0}) {
    work.select(form);
    run(work, 2);
  }
  EXPECT_EQ(ran, "abababababab");
  EXPECT_EQ(work.captures(), 0);
}

// Capture fails without a GPU, and also with one, because the default stream is current here.
TEST_F(CapturedGraphTest, WorkThatCannotBeCapturedRunsEagerlyAfterOneWarning) {
  auto work = make(at::kCUDA, true);
  EXPECT_EQ(warnings_of([&] { run(work, 1); }), "");
  EXPECT_TRUE(work.uses_graphs());
  const auto warnings = warnings_of([&] { run(work, 1); });
  EXPECT_NE(warnings.find("the work cannot be captured as CUDA graphs ("), std::string::npos)
      << warnings;
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 1) << warnings;
  EXPECT_FALSE(work.uses_graphs());
  EXPECT_EQ(work.captures(), 0);
  EXPECT_EQ(warnings_of([&] {
              run(work, 1);
              work.invalidate();
              run(work, 2);
              work.select(1);  // another variant does not try again
              run(work, 2);
            }),
            "");
  EXPECT_EQ(ran, "ababababababab");
}

}  // namespace
}  // namespace tg
