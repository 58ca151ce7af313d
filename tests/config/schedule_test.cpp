#include "config/types/schedule.h"

#include <gtest/gtest.h>

#include "config/check.h"
#include "config/derived.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

CountSchedule read(std::string_view text) {
  CountSchedule schedule;
  EXPECT_TRUE(read_value(text, schedule)) << text;
  return schedule;
}

TEST(CountSchedule, TakesAnotherCountFromAShareOrAStepOn) {
  const auto schedule = read("98304,196608@0.25,393216@0.5,786432@5000");
  const auto at = [&](std::int64_t step, double share) {
    return schedule.at({.step = step, .share = share});
  };
  EXPECT_EQ(at(0, 0), 98304);
  EXPECT_EQ(at(100, 0.2499), 98304);
  EXPECT_EQ(at(100, 0.25), 196608);
  EXPECT_EQ(at(4999, 0.9), 393216);
  EXPECT_EQ(at(5000, 0.1), 786432);  // the last one that has begun
  EXPECT_EQ(schedule.first(), 98304);
  EXPECT_EQ(schedule.last(), 786432);
  EXPECT_EQ(read("8,64@3,16@0.5").largest(), 64);
}

TEST(CountSchedule, IsReadAsItIsWritten) {
  for (const std::string text : {"1024", "1024,2048@0.5", "8,16@0.125,32@1,64@700"}) {
    EXPECT_EQ(value_text(read(text)), text);
  }
  EXPECT_TRUE(read("1024").constant());
  EXPECT_FALSE(read("1024,1024@5").constant());
}

TEST(CountSchedule, RefusesWhatIsNoSchedule) {
  for (const char* text :
       {"", ",", "x", "@0.5", "1024@0.5", "1024,2048", "1024,2048@", "1024,2048@x", "1024,2048@0",
        "1024,2048@-1", "1024,2048@2.5", "1024,2048@0.5,4096@0.5", "1024,2048@0.5,4096@0.25",
        "1024,2048@9,4096@8", "1024,2048@0.5@0.7", "1024,2048@nan", "1024,2048@inf"}) {
    CountSchedule schedule = 7;
    EXPECT_FALSE(read_value(text, schedule)) << text;
    EXPECT_EQ(schedule, CountSchedule(7)) << text;
  }
}

TEST(CountSchedule, ABadOneIsALineThatSaysTheForm) {
  const auto failure = failure_of([] { parse({}, {"TRAIN_SEQ_LEN=1024,2048"}); });
  EXPECT_TRUE(failure.starts_with("64 TRAIN_SEQ_LEN")) << failure;
  EXPECT_NE(failure.find("(1024,2048@0.5)"), std::string::npos) << failure;
}

RampSchedule read_ramps(std::string_view text) {
  RampSchedule schedule;
  EXPECT_TRUE(read_value(text, schedule)) << text;
  return schedule;
}

TEST(RampSchedule, IsReadAsItIsWritten) {
  for (const std::string text : {"1", "1/0.5/0.25:0,1/0.5:0@423,1@847", "0:2,1@0.75"}) {
    EXPECT_EQ(value_text(read_ramps(text)), text);
  }
  for (const char* text : {"", "1/", "/1", "a", "1:", "1:2:3", "1,2", "1@3", "1,2@3,3@2"}) {
    RampSchedule schedule = Ramps{{7, 7}};
    EXPECT_FALSE(read_value(text, schedule)) << text;
    EXPECT_EQ(schedule, RampSchedule(Ramps{{7, 7}})) << text;
  }
}

// The weights of record 89 of the GPT-124M speedrun (2026-08-01), 1,270 steps.
TEST(RampSchedule, ChangesLinearlyFromAStagesFirstStepToTheNextStages) {
  const auto schedule = read_ramps("1/0.5/0.25:0,1/0.5:0@423,1@847");
  const auto at = [&](std::int64_t step) {
    return ramps_at(schedule, {.step = step, .share = static_cast<double>(step) / 1270}, 1270);
  };
  const auto near = [](const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  };
  near(at(0), {1, 0.5, 0.25});
  near(at(1), {1, 0.5, 0.25 * 422 / 423});
  near(at(422), {1, 0.5, 0.25 / 423});
  near(at(423), {1, 0.5});
  near(at(846), {1, 0.5 / 424});
  near(at(1284), {1});
}

TEST(RampSchedule, EndsWithTheRunAndCountsFractionsOfIt) {
  const auto schedule = read_ramps("4:2,1:0@0.5");
  const auto at = [&](double share) { return ramps_at(schedule, {.share = share}, 100).front(); };
  EXPECT_DOUBLE_EQ(at(0), 4);
  EXPECT_DOUBLE_EQ(at(0.25), 3);
  EXPECT_DOUBLE_EQ(at(0.5), 1);
  EXPECT_DOUBLE_EQ(at(0.75), 0.5);
  EXPECT_DOUBLE_EQ(at(1), 0);
}

TEST(BatchShapes, AreThoseThatSomeStepHas) {
  const auto settings =
      parse({}, {"TRAIN_BATCH_TOKENS=65536,131072@0.5", "TRAIN_SEQ_LEN=512,1024@0.25"}).settings;
  const std::vector<BatchShape> expected = {{8192, 512}, {8192, 1024}, {16384, 1024}};
  EXPECT_EQ(batch_shapes(settings, 1), expected);
  EXPECT_EQ(batch_shapes(settings, 4), expected);
  EXPECT_EQ(batch_shapes(Settings(), 1).size(), 1u);
}

TEST(BatchShapes, HaveTheSegmentLimitOfTheirStage) {
  const auto settings = parse({}, {"LOADER_ORDER=aligned", "BOS_ID=1", "TRAIN_SEQ_LEN=64",
                                   "TRAIN_BATCH_TOKENS=512,1024@8", "SEGMENT_LIMIT=28,64@4,0@8"})
                            .settings;
  const std::vector<BatchShape> expected = {{64, 64, 28}, {64, 64, 64}, {128, 128, 0}};
  EXPECT_EQ(batch_shapes(settings, 1), expected);
  EXPECT_TRUE(batches_change(settings));
  EXPECT_EQ(segment_limit(settings), 0);
}

TEST(BatchShapes, EveryNumberOfTokensIsWholeRowsOfEveryLength) {
  const auto settings =
      parse({}, {"TRAIN_BATCH_TOKENS=65536,73728@0.5", "TRAIN_SEQ_LEN=1024,2048@900"}).settings;
  const auto conflicts = find_conflicts(settings, 1);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_NE(conflicts[0].find("TRAIN_BATCH_TOKENS=73728"), std::string::npos) << conflicts[0];
  EXPECT_NE(conflicts[0].find("TRAIN_SEQ_LEN=2048"), std::string::npos) << conflicts[0];
}

TEST(BatchShapes, TheShareOfARunIsThatOfTheLimitThatIsNearer) {
  RunConfig run;
  run.iterations = 1000;
  run.max_wallclock_seconds = 10;
  EXPECT_DOUBLE_EQ(run_progress(run, 500, 2000).share, 0.5);
  EXPECT_DOUBLE_EQ(run_progress(run, 100, 7000).share, 0.7);
  EXPECT_DOUBLE_EQ(run_progress(run, 1000, 20000).share, 1);
  run.gptq_reserve_seconds = 2;
  EXPECT_DOUBLE_EQ(run_progress(run, 100, 7000).share, 0.875);
  run.max_wallclock_seconds = 0;
  EXPECT_DOUBLE_EQ(run_progress(run, 100, 7000).share, 0.1);
}

TEST(BatchShapes, SharesCountInTheScheduleWhereItsLengthIsGiven) {
  RunConfig run;
  run.iterations = 100;
  run.schedule_iterations = 1000;
  run.max_wallclock_seconds = 10;
  EXPECT_DOUBLE_EQ(run_progress(run, 100, 7000).share, 0.1);
  EXPECT_DOUBLE_EQ(run_progress(run, 2000, 0).share, 1);
}

TEST(BatchShapes, PlannedTokensAreTheSumOverAllSteps) {
  const auto settings = parse({}, {"ITERATIONS=10", "TRAIN_BATCH_TOKENS=16384,32768@0.3,65536@9",
                                   "TRAIN_SEQ_LEN=1024", "MAX_WALLCLOCK_SECONDS=0"})
                            .settings;
  EXPECT_EQ(planned_tokens(settings, 1), 3 * 16384 + 6 * 32768 + 65536);
  auto early = settings;
  early.run.schedule_iterations = 20;
  EXPECT_EQ(planned_tokens(early, 1), 6 * 16384 + 3 * 32768 + 65536);
}

}  // namespace
}  // namespace tg
