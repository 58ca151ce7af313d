#include "train/lr_trace.h"

#include <gtest/gtest.h>

#include "tests/files/testing.h"

namespace tg {
namespace {

std::string train_event(int step) {
  return R"({"event":"train","step":)" + std::to_string(step) +
         R"(,"train_loss":6,"train_time_ms":1,"lr_scale":1})" + "\n";
}

std::vector<bool> recurs(const std::string& events) {
  const test::TempDir folder;
  test::write_file(folder / "metrics.jsonl", events);
  std::vector<bool> steps;
  const auto trace = read_lr_trace(folder / "metrics.jsonl");
  for (const auto& step : trace) steps.push_back(step.recurs);
  EXPECT_EQ(never_recurs(trace), std::ranges::find(steps, true) == steps.end());
  return steps;
}

// On a GPU a step is read back while the next one runs: its line comes after that of the recurrence
// with which the next one begins.
TEST(LrTrace, RecursFromItsEventsStepOnWhateverTheOrderOfLines) {
  const std::string began = R"({"event":"recurrence","step":2,"share":0.5})"
                            "\n";
  const auto one = train_event(1), two = train_event(2), three = train_event(3);
  const std::vector<bool> expected{false, false, true};
  EXPECT_EQ(recurs(one + two + began + three), expected);
  EXPECT_EQ(recurs(one + began + two + three), expected);
  EXPECT_EQ(recurs(one + two + three + began), expected);
  EXPECT_EQ(recurs(R"({"event":"recurrence","step":0,"share":0})"
                   "\n" +
                   one),
            std::vector{true});
}

TEST(LrTrace, NeverRecursWithoutThatEvent) {
  EXPECT_EQ(recurs(train_event(1) + train_event(2)), (std::vector{false, false}));
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
