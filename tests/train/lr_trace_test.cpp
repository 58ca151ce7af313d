#include "train/lr_trace.h"

#include <gtest/gtest.h>

#include "tests/files/testing.h"

namespace tg {
namespace {

std::string train_event(int step) {
  return R"({"event":"train","step":)" + std::to_string(step) +
         R"(,"train_loss":6,"train_time_ms":1,"lr_scale":1})" + "\n";
}

using Steps = std::vector<std::int64_t>;

Steps stages(const std::string& events) {
  const test::TempDir folder;
  test::write_file(folder / "metrics.jsonl", events);
  Steps steps;
  for (const auto& step : read_lr_trace(folder / "metrics.jsonl")) steps.push_back(step.stage);
  return steps;
}

std::string stage_event(int stage, int step) {
  return R"({"event":"stage","step":)" + std::to_string(step) + R"(,"stage":)" +
         std::to_string(stage) + "}\n";
}

// On a GPU a step is read back while the next one runs: its line comes after the line of the stage
// with which the next one begins.
TEST(LrTrace, AStageLastsFromItsEventsStepOnWhateverTheOrderOfLines) {
  const auto began = stage_event(1, 2), one = train_event(1), two = train_event(2),
             three = train_event(3);
  const Steps expected{0, 0, 1};
  EXPECT_EQ(stages(one + two + began + three), expected);
  EXPECT_EQ(stages(one + began + two + three), expected);
  EXPECT_EQ(stages(one + two + three + began), expected);
  EXPECT_EQ(stages(stage_event(1, 0) + one), Steps{1});
  EXPECT_EQ(stages(stage_event(1, 1) + one + two + stage_event(3, 2) + three), (Steps{0, 1, 3}));
}

TEST(LrTrace, OfOlderProgramsHasTheirRecurrenceAsTheSecondStage) {
  EXPECT_EQ(stages(train_event(1) + R"({"event":"recurrence","step":1,"share":0.5})" + "\n" +
                   train_event(2)),
            (Steps{0, 1}));
}

TEST(LrTrace, StaysInTheFirstStageWithoutAnEvent) {
  EXPECT_EQ(stages(train_event(1) + train_event(2)), (Steps{0, 0}));
}

TEST(LrTrace, IsTheScheduleOfItsRunAlsoWhereThatEndsBefore) {
  RunConfig run;
  run.iterations = 3;
  run.max_wallclock_seconds = 9;
  run.schedule_iterations = 100;
  const std::vector<TracedStep> trace(8);
  end_with(trace, run);
  follow(trace, run);
  EXPECT_EQ(run.iterations, 3);
  EXPECT_EQ(run.max_wallclock_seconds, 0);
  EXPECT_EQ(run.schedule_iterations, 8);
}

}  // namespace
}  // namespace tg
