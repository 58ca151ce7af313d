#include "comm/wait_notice.h"

#include <gtest/gtest.h>

#include <semaphore>

namespace tg {
namespace {

using namespace std::chrono_literals;

TEST(WaitNotice, IsPrintedFirstAndThenAgainAndAgain) {
  std::counting_semaphore<> calls(0);
  int number = 0;  // call number, of the notice's thread
  testing::internal::CaptureStderr();
  {
    const WaitNotice notice({.first = 1ms, .again = 2ms}, [&] {
      calls.release();
      // The second call has nothing to report.
      return ++number == 2 ? "" : "waiting, " + std::to_string(number);
    });
    for (int call = 0; call < 4; ++call) calls.acquire();
  }
  const auto text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(text.starts_with("WARN rank=0: waiting, 1\nWARN rank=0: waiting, 3\n")) << text;
}

TEST(WaitNotice, OfAShortWaitIsNothing) {
  const WaitNotice notice({.first = 1h, .again = 1h}, [] {
    ADD_FAILURE() << "nobody waited";
    return "";
  });
}  // and nobody waits for the hour

TEST(WaitNotice, ComesWithinFiveSecondsAndEveryThirty) {
  EXPECT_LT(NoticeTimes().first, 5s);
  EXPECT_EQ(NoticeTimes().again, 30s);
}

TEST(WaitNotice, NamesRanksByRanges) {
  EXPECT_EQ(ranks_text({3}), "rank 3");
  EXPECT_EQ(ranks_text({1, 2, 3}), "ranks 1-3");
  EXPECT_EQ(ranks_text({0, 2, 3, 5}), "ranks 0, 2-3, 5");
  std::vector<int> odd;
  for (int rank = 1; rank < 1000; rank += 2) odd.push_back(rank);
  EXPECT_EQ(ranks_text(odd), "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, ...");
}

}  // namespace
}  // namespace tg
