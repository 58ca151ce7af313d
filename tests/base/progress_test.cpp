#include "base/progress.h"

#include <gtest/gtest.h>

#include <thread>

namespace tg {
namespace {

TEST(Progress, GoesToTheInnermostListenerOfItsThread) {
  std::int64_t outer = 0, inner = 0;
  report_progress(1);  // without a receiver
  {
    const ProgressListener first([&](std::int64_t amount) { outer += amount; });
    report_progress(10);
    {
      const ProgressListener second([&](std::int64_t amount) { inner += amount; });
      report_progress(100);
      std::thread([] { report_progress(1000); }).join();
    }
    report_progress(20);
  }
  report_progress(2);
  EXPECT_EQ(outer, 30);
  EXPECT_EQ(inner, 100);
}

}  // namespace
}  // namespace tg
