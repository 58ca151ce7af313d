// Steps on a GPU, launched and replayed; skipped where there is none.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>

#include "device/gpu.h"
#include "tests/base/run_alone.h"
#include "tests/device/failed_gpu.h"
#include "tests/train/train_steps.h"

namespace tg {
namespace {

class TrainStepGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    use_gpu(0);
  }
};

TEST_F(TrainStepGpu, OneGradientThatIsNoNumberSkipsOneStepWithTheScriptsQuirksToo) {
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs);
    auto settings = test::tiny_settings(test::tiny_switches());
    settings.runtime.record_quirks = true;
    settings.runtime.graphs = graphs;
    Communicator alone;
    test::TrainingRank rank(settings, alone, at::kCUDA);
    // By the third step everything is replayed.
    test::expect_one_step_skipped(rank, /*steps_before=*/3);
  }
}

TEST_F(TrainStepGpu, PartsOfAMicroBatchGiveTheSameStepsLaunchedAndReplayed) {
  auto settings = test::tiny_settings(test::tiny_switches());
  settings.run.train_batch_tokens = 8 * 6 * 8;  // 6 sequences a micro-batch
  for (const bool graphs : {false, true}) {
    settings.runtime.graphs = graphs;
    for (const std::int64_t parts : {2, 3, 6}) {
      SCOPED_TRACE(fmt::format("{} parts, graphs {}", parts, graphs));
      Communicator alone;
      test::TrainingRank once(settings, alone, at::kCUDA), cut(settings, alone, at::kCUDA);
      cut.set_pass_size({.parts = parts});
      for (int step = 0; step < 4; ++step) {
        if (step == 2) cut.train_step().release_graphs();
        const auto expected = once.step();
        test::expect_close(cut.step(), expected, step);
      }
    }
  }
}

TEST_F(TrainStepGpu, StagesThatAlternateAreCapturedOnceEachAndTakeTheStepsOfLaunchedOnes) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  auto settings = test::tiny_settings(test::tiny_record());
  settings.model.recurrence = {.num_loops = 1, .loop_start = 1, .loop_end = 2};
  settings.run.train_seq_len = 256;
  settings.run.train_batch_tokens = 8 * 16 * 256;
  // One stage, another, then both in turn; and the graphs that are captured by then, the passes' in
  // a stage's first step and the update's, which no stage changes, in the second step.
  const std::vector<std::int64_t> stages = {0, 0, 0, 1, 1, 1, 0, 1, 0, 1},
                                  captures = {1, 2, 2, 3, 3, 3, 3, 3, 3, 3};
  Communicator alone;
  settings.runtime.graphs = false;
  test::TrainingRank launched(settings, alone, at::kCUDA);
  settings.runtime.graphs = true;
  test::TrainingRank replayed(settings, alone, at::kCUDA);
  for (std::size_t step = 0; step < stages.size(); ++step) {
    const auto expected = launched.step({.momentum = 0.9, .stage = stages[step]});
    allocator::resetPeakStats(0);
    const auto found = replayed.step({.momentum = 0.9, .stage = stages[step]});
    test::expect_close(found, expected, static_cast<int>(step));
    EXPECT_EQ(replayed.train_step().captures(), captures[step]) << step;
    const auto reserved = allocator::getDeviceStats(0).reserved_bytes[0];
    fmt::print("step {} of stage {}, {} captures: {} MiB reserved, at most {}\n", step,
               stages[step], captures[step], reserved.current >> 20, reserved.peak >> 20);
  }
}

// The update's graph is the last that keeps the graphs' pool: where it stays, a stage with another
// shape of batches needs twice the memory.
TEST_F(TrainStepGpu, BatchesOfAnotherShapeTakeTheMemoryOfTheLast) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  auto settings = test::tiny_settings(test::tiny_record());
  settings.runtime.graphs = true;
  settings.run.train_seq_len = 256;
  settings.run.train_batch_tokens = 8 * 64 * 256;
  Communicator alone;
  test::TrainingRank rank(settings, alone, at::kCUDA);
  const auto reserved = [] { return allocator::getDeviceStats(0).reserved_bytes[0]; };
  for (int step = 0; step < 3; ++step) rank.step();
  EXPECT_EQ(rank.train_step().captures(), 2);
  const auto before = static_cast<double>(reserved().current);
  allocator::resetPeakStats(0);
  auto shape = batch_shape(settings, /*world_size=*/1, {});
  shape.seq_len = 128;
  rank.feeder().reshape(shape);
  for (int step = 0; step < 3; ++step) {
    rank.step();
    EXPECT_LT(static_cast<double>(reserved().peak), 1.25 * before) << step;
  }
  EXPECT_EQ(rank.train_step().captures(), 4);
}

// Launched, captured and replayed work meets the failure in other places.
class FailedGpuStepDeathTest : public TrainStepGpu {};

TEST_F(FailedGpuStepDeathTest, EndsARunWithOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool graphs : {false, true}) {
    SCOPED_TRACE(graphs);
    const auto run = [graphs] {
      use_gpu(0);
      auto settings = test::tiny_settings(test::tiny_switches());
      settings.runtime.graphs = graphs;
      Communicator alone;
      test::TrainingRank rank(settings, alone, at::kCUDA);
      for (int step = 0; step < 3; ++step) rank.step();
      test::break_gpu();
      rank.step();
    };
    EXPECT_EXIT(test::run_alone(run), testing::ExitedWithCode(70), test::kOneInternalError);
  }
}

}  // namespace
}  // namespace tg
