#include "train/phases.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace tg {
namespace {

using namespace std::chrono_literals;

// A feed of which a step takes one batch, waiting 10 ms for it.
class SlowFeed final : public BatchFeed {
 public:
  DeviceBatch next() override {
    std::this_thread::sleep_for(10ms);
    waited_ms_ += 10;
    return {};
  }
  double waited_ms() const override { return waited_ms_; }

 private:
  double waited_ms_ = 500;  // by earlier steps
};

std::optional<StepTimes> times_of_step(TimingBreakdown mode) {
  SlowFeed feed;
  PhaseRecorder phases(mode, /*nvtx=*/false, at::kCPU, nullptr);
  phases.begin_step(feed);
  for (int micro = 0; micro < 2; ++micro) {
    {
      const auto phase = phases.enter(Phase::batch);
      feed.next();
    }
    const auto phase = phases.enter(Phase::forward);
    std::this_thread::sleep_for(20ms);
  }
  {
    const auto phase = phases.enter(Phase::optimizer);
    std::this_thread::sleep_for(5ms);
  }
  const auto record = phases.end_step(feed);
  return record ? std::optional(record->times()) : std::nullopt;
}

TEST(PhaseRecorder, GivesEachPhaseItsTimeAndLosesNone) {
  for (const auto mode : {TimingBreakdown::events, TimingBreakdown::sync}) {
    auto times = times_of_step(mode).value();
    // Between phases next to nothing happens, unless this thread loses its core there.
    const auto lost = [&] { return times.step - times.phases(); };
    for (int again = 0; again < 20 && lost() > 0.02 * times.step; ++again)
      times = times_of_step(mode).value();
    EXPECT_LE(lost(), 0.02 * times.step);
    EXPECT_LE(times.phases(), times.step + 1);
    EXPECT_GE(times.data_wait, 20);
    EXPECT_GE(times.forward, 40);
    EXPECT_GE(times.optimizer, 5);
    EXPECT_EQ(times.backward, 0);
    EXPECT_EQ(times.comm, 0);
    EXPECT_NEAR(times.batch_cpu, 20, 0.01);
    EXPECT_GE(times.host, 45);
  }
}

TEST(PhaseRecorder, RecordsNothingWhenItIsOff) {
  EXPECT_FALSE(times_of_step(TimingBreakdown::off));
}

TEST(PhaseRecorder, WhatTheDeviceFailsWithInAPhaseIsThrownByTheNext) {
  SlowFeed feed;
  int waits = 0;
  PhaseRecorder phases(TimingBreakdown::sync, /*nvtx=*/false, at::kCPU, nullptr, [&] {
    // The kernels of a phase fail once it has been launched.
    if (++waits == 2) throw std::runtime_error("CUDA error: an illegal memory access");
  });
  phases.begin_step(feed);
  { const auto phase = phases.enter(Phase::forward); }
  EXPECT_THROW(phases.enter(Phase::backward), std::runtime_error);
  waits = 0;
  { const auto phase = phases.enter(Phase::optimizer); }
  EXPECT_THROW(phases.end_step(feed), std::runtime_error);
}

TEST(PhaseRecorder, AnErrorWithinAPhaseLeavesItAsItIs) {
  SlowFeed feed;
  int waits = 0;
  PhaseRecorder phases(TimingBreakdown::sync, /*nvtx=*/false, at::kCPU, nullptr, [&] {
    if (++waits == 2) throw std::runtime_error("CUDA error: an illegal memory access");
  });
  phases.begin_step(feed);
  const auto fails = [&] {
    const auto phase = phases.enter(Phase::forward);
    throw std::logic_error("the first");
  };
  EXPECT_THROW(fails(), std::logic_error);
}

TEST(PhaseRecorder, TellsTheSpanLogWhichBatchAPhaseWorksOn) {
  SpanLog spans;
  PhaseRecorder phases(TimingBreakdown::off, /*nvtx=*/false, at::kCPU, &spans);
  { const auto unheard = phases.enter(Phase::forward, 1); }
  spans.start();
  { const auto heard = phases.enter(Phase::forward, 2); }
  const auto told = spans.stop();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_STREQ(told[0].name, "forward");
  EXPECT_EQ(told[0].batch, 2);
  EXPECT_LE(told[0].begin_ns, told[0].end_ns);
}

}  // namespace
}  // namespace tg
