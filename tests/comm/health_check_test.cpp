#include "comm/health_check.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

HealthReport report_of(std::vector<Heartbeat> heartbeats) {
  HealthReport report;
  report.round = 4;
  for (auto& heartbeat : heartbeats) {
    report.ranks.push_back(HealthReport::Heard{heartbeat, std::chrono::steady_clock::now()});
  }
  return report;
}

TEST(HealthCheck, AHeartbeatComesBackAsItWasSent) {
  const Heartbeat sent{12, 345, true, 6.5, "writing the model to logs/a b: 123 bytes so far"};
  const auto got = Heartbeat::decode(sent.encode());
  EXPECT_EQ(got.round, 12);
  EXPECT_EQ(got.step, 345);
  EXPECT_TRUE(got.waits);
  EXPECT_DOUBLE_EQ(got.idle_s, 6.5);
  EXPECT_EQ(got.work, sent.work);
  EXPECT_EQ(Heartbeat::decode(Heartbeat{1, 2, false, 0, ""}.encode()).work, "");
}

TEST(HealthCheck, OfRanksThatWorkTheOneThatGotOnTheLongestAgoCounts) {
  const auto report =
      report_of({{4, 1, true, 90, ""}, {4, 1, false, 50, ""}, {4, 1, false, 2, "writing"}});
  EXPECT_EQ(report.idle_s(), 50);
}

TEST(HealthCheck, WhereAllWaitTheLastToComeCounts) {
  EXPECT_EQ(report_of({{4, 1, true, 90, ""}, {4, 1, true, 30, ""}}).idle_s(), 30);
}

TEST(HealthCheck, ThereIsNothingToWaitForWhereARankIsSilent) {
  auto report =
      report_of({{4, 1, true, 90, ""}, {4, 1, false, 1, ""}, {3, 1, false, 1, "writing"}});
  EXPECT_FALSE(report.idle_s());
  EXPECT_EQ(report.text(),
            "stopped or gone: rank 2 (0 s ago: step 1, writing); alive: 0 (step 1) 1 (step 1)");
  report.ranks[1].reset();
  EXPECT_FALSE(report.answered(1));
  EXPECT_EQ(report.text(),
            "stopped or gone: rank 1 2 (0 s ago: step 1, writing); alive: 0 (step 1)");
}

}  // namespace
}  // namespace tg
