// Which stage a step is of, and its learning rate: by the share of the schedule that is done, or as
// a trace says.
#include "train/run_clock.h"

#include <gtest/gtest.h>

#include "optim/schedule.h"
#include "tests/train/train_steps.h"

namespace tg {
namespace {

class RunClockTest : public testing::Test {
 protected:
  RunClockTest() {
    settings_.run.iterations = 10;
    settings_.run.max_wallclock_seconds = 0;
  }

  static std::vector<Stage> stages_from(const std::vector<double>& shares) {
    std::vector<Stage> stages;
    for (const double share : shares) stages.push_back({.from = share});
    return stages;
  }
  // The stages of steps 0 to 9.
  std::vector<std::int64_t> stages_of_steps(const std::vector<Stage>& stages,
                                            const std::vector<TracedStep>& trace = {}) {
    RunClock clock(settings_, stages, at::kCPU, alone_);
    clock.replay(trace);
    const auto table = test::make_parameters(settings_.model, at::kFloat, at::kCPU);
    const WeightAverage average(table, settings_.averaging, alone_, /*record_quirks=*/false);
    std::vector<std::int64_t> found;
    for (std::int64_t step = 0; step < settings_.run.iterations; ++step)
      found.push_back(clock.decide(step, /*elapsed_ms=*/0, average).stage);
    return found;
  }
  static std::vector<TracedStep> trace_of(const std::vector<std::int64_t>& stages) {
    std::vector<TracedStep> trace;
    for (const auto stage : stages) trace.push_back({.stage = stage});
    return trace;
  }

  Settings settings_ = test::tiny_settings(test::tiny_speedrun());
  Communicator alone_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(RunClockTest, AStageBeginsWithTheFirstStepAtItsShare) {
  EXPECT_EQ(stages_of_steps(stages_from({0})), Steps(10, 0));
  EXPECT_EQ(stages_of_steps(stages_from({0, 0.3, 0.55})), (Steps{0, 0, 0, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(stages_of_steps(stages_from({0, 0})), Steps(10, 1));
}

TEST_F(RunClockTest, AStageThatNeverBeginsDoesNotBeyondTheScheduleEither) {
  settings_.run.schedule_iterations = 4;
  EXPECT_EQ(stages_of_steps(stages_from({0, 0.5, Stage::kNever})),
            (Steps{0, 0, 1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST_F(RunClockTest, ATraceSaysTheStagesAndItsLastStepThoseBehindIt) {
  const auto stages = stages_from({0, 0.3, 0.6});
  EXPECT_EQ(stages_of_steps(stages, trace_of({0, 2, 2, 1})), (Steps{0, 2, 2, 1, 1, 1, 1, 1, 1, 1}));
  // State of a run that had more stages than this one.
  EXPECT_EQ(stages_of_steps(stages, trace_of({0, 7})), (Steps{0, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
}

TEST(Plan, ItsLastStageIsTheLastThatBegins) {
  Plan plan;
  plan.stages = {{.from = 0}, {.from = 0.3}, {.from = Stage::kNever}};
  EXPECT_EQ(plan.last_stage(), 1);
  plan.stages = {{.from = 0}};
  EXPECT_EQ(plan.last_stage(), 0);
}

TEST_F(RunClockTest, TheLearningRateOfATraceIsItsStepsAndTimePlaysNoPart) {
  settings_.run.iterations = 100;
  settings_.run.warmdown_iters = 20;
  settings_.run.max_wallclock_seconds = 1;
  const auto stages = stages_from({0});
  RunClock clock(settings_, stages, at::kCPU, alone_);
  EXPECT_EQ(clock.lr_scale(10, 900), lr_scale(settings_.run, 10, 900));
  clock.replay({{.lr_scale = 1}, {.lr_scale = 0.75}, {.lr_scale = 0.25}});
  EXPECT_EQ(clock.lr_scale(0, 1e9), 1);
  EXPECT_EQ(clock.lr_scale(1, 0), 0.75);
  EXPECT_EQ(clock.lr_scale(2, 0), 0.25);
  EXPECT_EQ(clock.lr_scale(3, 0), 0.25);
}

}  // namespace
}  // namespace tg
