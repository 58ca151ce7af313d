#include "comm/health_check.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

constexpr std::int64_t kRound = 4;  // round of the health check

Heartbeat waiting(double idle_s) {
  return {.round = kRound, .step = 1, .waits = true, .idle_s = idle_s, .work = ""};
}

Heartbeat working(double idle_s, const std::string& work = "") {
  return {.round = kRound, .step = 1, .waits = false, .idle_s = idle_s, .work = work};
}

HealthReport report_of(std::vector<Heartbeat> heartbeats) {
  HealthReport report;
  report.round = kRound;
  for (auto& heartbeat : heartbeats) {
    report.ranks.push_back(HealthReport::Received{heartbeat, std::chrono::steady_clock::now()});
  }
  return report;
}

TEST(HealthCheck, DecodingAHeartbeatRestoresIt) {
  const Heartbeat sent{.round = 12,
                       .step = 345,
                       .waits = true,
                       .idle_s = 6.5,
                       .work = "writing the model to logs/a b: 123 bytes so far"};
  const auto got = Heartbeat::decode(sent.encode());
  EXPECT_EQ(got.round, 12);
  EXPECT_EQ(got.step, 345);
  EXPECT_TRUE(got.waits);
  EXPECT_DOUBLE_EQ(got.idle_s, 6.5);
  EXPECT_EQ(got.work, sent.work);
  EXPECT_EQ(Heartbeat::decode(working(0).encode()).work, "");
}

TEST(HealthCheck, IdleTimeIsTheMaximumOverRanksThatWork) {
  EXPECT_EQ(report_of({waiting(90), working(50), working(2, "writing")}).idle_s(), 50);
}

TEST(HealthCheck, IdleTimeIsTheMinimumIfAllWait) {
  EXPECT_EQ(report_of({waiting(90), waiting(30)}).idle_s(), 30);
}

TEST(HealthCheck, ThereIsNoIdleTimeIfARankDoesNotAnswer) {
  auto of_earlier_round = working(1, "writing");
  of_earlier_round.round = kRound - 1;
  auto report = report_of({waiting(90), working(1), of_earlier_round});
  EXPECT_FALSE(report.idle_s());
  EXPECT_EQ(report.text(),
            "stopped or gone: rank 2 (0 s ago: step 1, writing); alive: 0 (step 1) 1 (step 1)");
  report.ranks[1].reset();
  EXPECT_FALSE(report.answered(1));
  EXPECT_EQ(report.text(),
            "stopped or gone: rank 1 2 (0 s ago: step 1, writing); alive: 0 (step 1)");
  EXPECT_EQ(report.last_heartbeats_but(0), " 1 2 (0 s ago: step 1, writing)");
}

}  // namespace
}  // namespace tg
