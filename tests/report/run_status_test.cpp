#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "report/run_events.h"

namespace tg {
namespace {

using nlohmann::json;

json train(int step, double ms) {
  return {{"event", "train"}, {"step", step}, {"train_time_ms", ms}};
}

RunStatus status_after(const std::vector<json>& events) {
  RunStatus status;
  for (const auto& event : events) status.add(event);
  return status;
}

// Its kind, colon, text.
std::string escaped(const RunStatus& status, double quiet_s = 0) {
  const auto object = status.as_json(quiet_s);
  return object["kind"].get<std::string>() + ": " + object["text"].get<std::string>();
}

TEST(RunStatus, SaysWhatTheRunDoes) {
  RunStatus status;
  const std::pair<json, const char*> events[] = {
      {{{"event", "start"}}, "starting: starting"},
      {train(1, 100), "training: training"},
      {{{"event", "closing"}}, "scoring: scoring"},
      {{{"event", "final"}}, "scoring: scoring"},  // there may be more scores
      {{{"event", "exit"}, {"code", 0}, {"step", 1}}, "ended: ended"}};
  for (const auto& [event, expected] : events) {
    status.add(event);
    EXPECT_EQ(escaped(status), expected);
  }
}

TEST(RunStatus, ARunThatStoppedSaysWhereAndHowUntilItGoesOn) {
  auto status = status_after({train(40, 100), {{"event", "exit"}, {"code", 75}, {"step", 41}}});
  EXPECT_EQ(escaped(status), "stopped: stopped at step 41, exit 75");
  EXPECT_EQ(escaped(status, 1e6), escaped(status)) << "nobody expects a line";
  EXPECT_EQ(status.exit()["code"], 75);
  status.add({{"event", "resume"}, {"step", 41}});
  EXPECT_EQ(escaped(status), "training: training");
  EXPECT_TRUE(status.exit().is_null());
  // Before the process knew of a step.
  status.add({{"event", "exit"}, {"code", 65}});
  EXPECT_EQ(escaped(status), "stopped: stopped at step 41, exit 65");
}

TEST(RunStatus, SilenceIsToldWhereItIsNotAsUsual) {
  const std::vector<json> fast = {train(1, 100), train(2, 200)};
  EXPECT_EQ(escaped(status_after(fast), 59), "training: training");
  EXPECT_EQ(escaped(status_after(fast), 61), "silent: training, no line for 1 min");
  EXPECT_EQ(escaped(status_after(fast), 7100), "silent: training, no line for 118 min");
  EXPECT_EQ(escaped(status_after(fast), 7300), "silent: training, no line for 2 h");
  EXPECT_EQ(escaped(status_after(fast), 1e6), "silent: training, no line for 11 days");
  EXPECT_EQ(escaped(status_after({{{"event", "closing"}}}), 200),
            "silent: scoring, no line for 3 min");
  // Three times the longest validation or step are no surprise.
  auto scores = fast;
  scores.push_back({{"event", "val"}, {"step", 2}, {"val_time_ms", 100'000}});
  EXPECT_EQ(escaped(status_after(scores), 299), "training: training");
  EXPECT_EQ(escaped(status_after(scores), 301), "silent: training, no line for 5 min");
  EXPECT_EQ(escaped(status_after({train(1, 100), train(2, 100'100)}), 299), "training: training");
  // The first step of a run that goes on tells nothing of a step's length.
  EXPECT_EQ(escaped(status_after({train(900, 1e9)}), 61), "silent: training, no line for 1 min");
}

}  // namespace
}  // namespace tg
