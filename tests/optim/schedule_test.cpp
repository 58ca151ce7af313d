#include "optim/schedule.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

RunConfig uncapped(std::int64_t iterations, std::int64_t warmdown) {
  RunConfig run;
  run.iterations = iterations;
  run.warmdown_iters = warmdown;
  run.max_wallclock_seconds = 0;
  return run;
}

TEST(LearningRate, WithoutACapFallsOverTheLastSteps) {
  const auto run = uncapped(100, 20);
  EXPECT_EQ(lr_scale(run, 0, 0), 1.0);
  EXPECT_EQ(lr_scale(run, 79, 1e9), 1.0);  // time plays no part
  EXPECT_EQ(lr_scale(run, 80, 0), 1.0);
  EXPECT_DOUBLE_EQ(lr_scale(run, 81, 0), 0.95);
  EXPECT_DOUBLE_EQ(lr_scale(run, 99, 0), 0.05);
}

TEST(LearningRate, BeyondTheScheduleTheLastFactorStays) {
  auto run = uncapped(100, 20);
  run.schedule_iterations = 60;
  EXPECT_EQ(lr_scale(run, 40, 0), 1.0);
  EXPECT_DOUBLE_EQ(lr_scale(run, 59, 0), 0.05);
  EXPECT_DOUBLE_EQ(lr_scale(run, 60, 0), 0.05);
  EXPECT_DOUBLE_EQ(lr_scale(run, 99, 0), 0.05);
}

TEST(LearningRate, ARunMayEndEarlyOnALongSchedule) {
  auto run = uncapped(30, 20);
  run.schedule_iterations = 100;
  for (std::int64_t step = 0; step < 30; ++step) EXPECT_EQ(lr_scale(run, step, 0), 1.0);
}

TEST(LearningRate, AScheduleOfSoManyStepsDoesNotFollowTheClock) {
  auto run = uncapped(30, 20);
  run.max_wallclock_seconds = 60;
  run.schedule_iterations = 100;
  EXPECT_EQ(lr_scale(run, 10, 59'999), 1.0);
  EXPECT_DOUBLE_EQ(lr_scale(run, 90, 1), 0.5);
}

TEST(LearningRate, AWarmDownLongerThanTheRunStartsBelowOne) {
  EXPECT_DOUBLE_EQ(lr_scale(uncapped(10, 40), 0, 0), 0.25);
  EXPECT_DOUBLE_EQ(lr_scale(uncapped(10, 40), 6, 0), 0.1);
}

TEST(LearningRate, WithoutAWarmDownStaysAtOne) {
  EXPECT_EQ(lr_scale(uncapped(10, 0), 9, 0), 1.0);
  auto run = uncapped(10, 0);
  run.max_wallclock_seconds = 1;
  EXPECT_EQ(lr_scale(run, 9, 999), 1.0);
}

RunConfig capped() {
  auto run = uncapped(20000, 100);
  run.max_wallclock_seconds = 60;
  return run;
}

TEST(LearningRate, WithACapFallsByTheTimeLeft) {
  const auto run = capped();
  EXPECT_EQ(lr_scale(run, 0, 0), 1.0);
  // 100 ms a step: the warm-down of 100 steps takes 10 s of the 60.
  EXPECT_EQ(lr_scale(run, 100, 10'000), 1.0);
  EXPECT_EQ(lr_scale(run, 500, 50'000), 1.0);  // exactly 10 s left: 10/10
  EXPECT_DOUBLE_EQ(lr_scale(run, 550, 55'000), 0.5);
  EXPECT_DOUBLE_EQ(lr_scale(run, 599, 59'900), 0.01);
  EXPECT_EQ(lr_scale(run, 600, 60'000), 0.0);
  EXPECT_EQ(lr_scale(run, 700, 70'000), 0.0);
  // Slower steps start the warm-down earlier.
  EXPECT_DOUBLE_EQ(lr_scale(run, 100, 50'000), 10'000.0 / 50'000);
}

TEST(LearningRate, WithACapIgnoresTheNumberOfSteps) {
  EXPECT_EQ(lr_scale(capped(), 19'999, 100), 1.0);
}

TEST(LearningRate, TimeBeforeTheFirstStepCountsAsOneStep) {
  // 2 s at step 0: a step is taken to last 2 s, the warm-down 200 s.
  EXPECT_DOUBLE_EQ(lr_scale(capped(), 0, 2000), 58.0 / 200);
}

// As the reference implementation logs them: lr_scale of lastrec_train.
TEST(LearningRate, FallsOverAShareOfTheStepsToItsLeastFactor) {
  auto run = uncapped(16, 3500);
  run.warmdown_frac = {.value = 0.85};
  run.min_lr = 0.1;
  const std::vector<double> reference = {1.0,
                                         1.0,
                                         1.0,
                                         0.9558823529411765,
                                         0.8823529411764706,
                                         0.8088235294117647,
                                         0.7352941176470589,
                                         0.6617647058823529,
                                         0.5882352941176471,
                                         0.5147058823529412,
                                         0.4411764705882353,
                                         0.36764705882352944,
                                         0.29411764705882354,
                                         0.22058823529411764,
                                         0.14705882352941177,
                                         0.1};
  for (std::size_t step = 0; step < reference.size(); ++step)
    EXPECT_DOUBLE_EQ(lr_scale(run, static_cast<std::int64_t>(step), 1e9), reference[step]);
  EXPECT_EQ(lr_scale(run, 99, 0), 0.1);
  run.min_lr = 0;
  EXPECT_EQ(lr_scale(run, 16, 0), 0);
  run.warmdown_frac.value = 0;
  EXPECT_EQ(lr_scale(run, 15, 0), 1);
}

TEST(LearningRate, FallsOverAShareOfTheTimeThatIsLeftToTraining) {
  auto run = capped();
  run.gptq_reserve_seconds = 10;
  run.warmdown_frac = {.value = 0.5};
  run.min_lr = 0.25;
  EXPECT_EQ(lr_scale(run, 19'999, 24'999), 1);  // steps play no part
  EXPECT_DOUBLE_EQ(lr_scale(run, 0, 25'000), 1);
  EXPECT_DOUBLE_EQ(lr_scale(run, 0, 40'000), 0.4);
  EXPECT_EQ(lr_scale(run, 0, 50'000), 0.25);
  run.schedule_iterations = 100;
  EXPECT_DOUBLE_EQ(lr_scale(run, 70, 0), 0.6);
}

TEST(LearningRate, OfWarmDownStepsEndsWithTheTimeThatIsLeftToTraining) {
  auto run = capped();
  run.gptq_reserve_seconds = 10;
  EXPECT_DOUBLE_EQ(lr_scale(run, 450, 45'000), 0.5);
  EXPECT_EQ(lr_scale(run, 500, 50'000), 0);
}

TEST(MuonMomentum, WarmsUpLinearlyFromItsStart) {
  OptimConfig optim;
  optim.muon_momentum = 0.99;
  optim.muon_momentum_warmup_start = 0.92;
  optim.muon_momentum_warmup_steps = 1500;
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 0, 20'000), 0.92);
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 750, 20'000), 0.955);
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 1500, 20'000), 0.99);
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 100'000, 20'000), 0.99);
  optim.muon_momentum_warmup_steps = 0;
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 0, 20'000), 0.99);
}

TEST(MuonMomentum, CoolsDownToItsStartInTheLastSteps) {
  OptimConfig optim;
  optim.muon_momentum = 0.9;
  optim.muon_momentum_warmup_start = 0.5;
  optim.muon_momentum_warmup_steps = 0;
  optim.muon_momentum_cooldown_steps = 4;
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 0, 20), 0.9);
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 16, 20), 0.9);
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 17, 20), 0.8);
  EXPECT_DOUBLE_EQ(muon_momentum(optim, 19, 20), 0.6);
}

// The script of the speedrun's record of 2025-11-10 computed these factors and momenta.
TEST(Schedule, OfTheRecordOf2025Nov10IsTheScripts) {
  RunConfig run = uncapped(2245, 0);
  run.schedule_iterations = 2205;
  run.warmdown_frac = {.value = 0.5};
  run.lr_floor = 0.1;
  OptimConfig optim;
  optim.muon_momentum = 0.95;
  optim.muon_momentum_warmup_start = 0.85;
  optim.muon_momentum_warmup_steps = 300;
  optim.muon_momentum_cooldown_steps = 50;
  const struct {
    std::int64_t step;
    double scale, momentum;
  } reference[] = {{0, 1.0, 0.85},
                   {1, 1.0, 0.8503333333333333},
                   {150, 1.0, 0.8999999999999999},
                   {299, 1.0, 0.9496666666666667},
                   {300, 1.0, 0.95},
                   {301, 1.0, 0.95},
                   {734, 1.0, 0.95},
                   {735, 1.0, 0.95},
                   {1102, 1.0, 0.95},
                   {1103, 0.9995918367346939, 0.95},
                   {1104, 0.9987755102040815, 0.95},
                   {1469, 0.7008163265306122, 0.95},
                   {1470, 0.7000000000000001, 0.95},
                   {1800, 0.43061224489795913, 0.95},
                   {2194, 0.1089795918367347, 0.95},
                   {2195, 0.1081632653061224, 0.95},
                   {2196, 0.1073469387755103, 0.948},
                   {2204, 0.1008163265306123, 0.9319999999999999},
                   {2205, 0.10017999999999999, 0.9299999999999999},
                   {2220, 0.10017999999999999, 0.8999999999999999},
                   {2244, 0.10017999999999999, 0.852}};
  for (const auto& [step, scale, momentum] : reference) {
    EXPECT_NEAR(lr_scale(run, step, 0), scale, 1e-12) << step;
    EXPECT_NEAR(muon_momentum(optim, step, run.iterations), momentum, 1e-12) << step;
  }
}

// LR_SCALE by stage, up to the last step of the schedule.
TEST(Schedule, RatesOfTheRecordOf2026Aug01AreTheScripts) {
  RunConfig run = uncapped(1285, 0);
  run.schedule_iterations = 1270;
  run.warmdown_frac = {.value = 0.6};
  run.warmdown_whole_steps = true;
  run.lr_floor = 0.15;
  run.lr_scale = NumberSchedule({{1, 0}, {1.52, 423}, {1.73, 847}});
  const struct {
    std::int64_t step;
    double scale;
  } reference[] = {{0, 1.0},
                   {422, 1.0},
                   {423, 1.52},
                   {508, 1.52},
                   {509, 1.518202099737533},
                   {700, 1.1748031496062992},
                   {846, 0.9123097112860894},
                   {847, 1.0270866141732282},
                   {1000, 0.7098425196850394},
                   {1236, 0.22049868766404193},
                   {1269, 0.15207349081364835},
                   {1270, 0.15},
                   {1284, 0.15}};
  for (const auto& [step, scale] : reference)
    EXPECT_NEAR(lr_scale(run, step, 0), scale, 1e-12) << step;
}

TEST(LearningRate, AWarmDownOfWholeStepsBeginsWithTheLastStepBeforeItsShare) {
  RunConfig run = uncapped(15, 0);
  run.schedule_iterations = 12;
  run.warmdown_frac = {.value = 0.6};
  run.warmdown_whole_steps = true;
  run.lr_floor = 0.15;
  run.lr_scale = NumberSchedule({{1, 0}, {1.52, 4}, {1.73, 8}});
  EXPECT_DOUBLE_EQ(lr_scale(run, 4, 0), 1.52);  // int(12 · 0.4)
  EXPECT_DOUBLE_EQ(lr_scale(run, 5, 0), 1.34875);
  EXPECT_DOUBLE_EQ(lr_scale(run, 7, 0), 1.00625);
  EXPECT_DOUBLE_EQ(lr_scale(run, 14, 0), 0.15);
}

TEST(LearningRate, LrScaleMultipliesEveryOtherWarmDown) {
  RunConfig run = uncapped(10, 4);
  run.lr_scale = NumberSchedule({{2, 0}, {3, 8}});
  EXPECT_DOUBLE_EQ(lr_scale(run, 5, 0), 2);
  EXPECT_DOUBLE_EQ(lr_scale(run, 7, 0), 2 * 0.75);
  EXPECT_DOUBLE_EQ(lr_scale(run, 9, 0), 3 * 0.25);
}

TEST(Schedule, TheStepOfUntieEmbeddingsAtIsTheLastThatIsTied) {
  OptimConfig optim;
  EXPECT_EQ(tie_at(optim, 0), Tie::none);
  optim.untie_embeddings_at = 847;
  for (const auto& [step, tie] : {std::pair{0, Tie::tied},
                                  {846, Tie::tied},
                                  {847, Tie::splits},
                                  {848, Tie::none},
                                  {1284, Tie::none}})
    EXPECT_EQ(tie_at(optim, step), tie) << step;
}

TEST(Schedule, UpdatesAllInTheStepThatEndsAdamEvery) {
  OptimConfig optim;
  for (const std::int64_t step : {0, 1, 2}) EXPECT_TRUE(updates_all(optim, step));
  optim.adam_every = 3;
  for (const std::int64_t step : {0, 1, 3, 4}) EXPECT_FALSE(updates_all(optim, step)) << step;
  for (const std::int64_t step : {2, 5}) EXPECT_TRUE(updates_all(optim, step)) << step;
}

}  // namespace
}  // namespace tg
