// Recording and replaying on a GPU; skipped where there is none.
#include "device/gpu.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <gtest/gtest.h>

#include "device/gpu_graphs.h"

namespace tg {
namespace {

class GpuGraphsGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    use_gpu(0);
    a = at::ones({1000}, at::kCUDA);
    sum = at::zeros({1000}, at::kCUDA);
  }
  double total() const { return sum.sum().item<double>(); }
  std::string record(GpuGraphs& graphs) {
    return graphs.record({[this] { doubled = a * 2; }, [this] { sum.add_(doubled); }});
  }

  void expect_recorded_and_right(GpuGraphs& graphs) {
    ASSERT_EQ(record(graphs), "");
    sum.zero_();
    graphs.replay(0);
    graphs.replay(1);
    EXPECT_EQ(total(), 2000);
  }
  static c10::cuda::CUDAStream side_stream() {
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/true);
  }
  // The place of a tensor that another stream has used: its memory is given out again only where
  // the allocator knows of no capture.
  static const void* place_across_streams() {
    const auto tensor = at::empty({kLarge}, at::kCUDA);
    tensor.record_stream(side_stream());
    return tensor.data_ptr();
  }
  static std::int64_t reserved() {
    using namespace c10::cuda::CUDACachingAllocator;
    emptyCache();
    return getDeviceStats(0).reserved_bytes[0].current;
  }

  // Neither on its own nor beside another recording, whose memory it would share, does a failure
  // change what comes after it.
  void expect_obstacle_without_trace(const std::function<void()>& part, const char* reason) {
    const auto reserved_before = reserved();
    GpuGraphs other, failed;
    for (const bool beside_another : {false, true}) {
      SCOPED_TRACE(beside_another);
      if (beside_another) {
        ASSERT_EQ(record(other), "");
      }
      const auto obstacle = failed.record({[this] { doubled = a * 2; }, part});
      EXPECT_NE(obstacle.find(reason), std::string::npos) << obstacle;
      EXPECT_FALSE(failed.recorded());
      doubled = at::Tensor();
      if (!beside_another) {
        EXPECT_EQ(reserved(), reserved_before);
      }
      const auto* place = place_across_streams();
      wait_for_gpu();
      EXPECT_EQ(place_across_streams(), place);
      sum.zero_().add_(a * 3);
      EXPECT_EQ(total(), 3000);
      GpuGraphs next;
      expect_recorded_and_right(next);
    }
  }

  static constexpr std::int64_t kLarge = std::int64_t{1} << 26;  // 256 MB
  at::Tensor a, sum, doubled;
};

TEST_F(GpuGraphsGpu, PartsRunAtReplayAndHandOverWhatTheyLeave) {
  GpuGraphs graphs;
  EXPECT_FALSE(graphs.recorded());
  ASSERT_EQ(record(graphs), "");
  EXPECT_EQ(total(), 0);  // recorded, not run
  for (int times = 1; times <= 3; ++times) {
    a.fill_(times);
    graphs.replay(0);
    graphs.replay(1);
  }
  EXPECT_EQ(total(), 2 * (1 + 2 + 3) * 1000);
}

TEST_F(GpuGraphsGpu, APartThatWaitsForTheGpuIsAnObstacleAndLeavesNothingBehind) {
  expect_obstacle_without_trace([this] { sum.add_(a.sum().item<double>()); }, "captur");
}

TEST_F(GpuGraphsGpu, ACaptureThatFailsOnlyAtItsEndIsAnObstacleAndLeavesNothingBehind) {
  at::cuda::CUDAEvent fork;
  const auto side = side_stream();
  const auto fork_without_join = [&] {
    fork.record();
    fork.block(side);
    const c10::cuda::CUDAStreamGuard guard(side);
    at::ones({kLarge}, at::kCUDA).sum();
  };
  expect_obstacle_without_trace(fork_without_join, "unjoined");
}

TEST_F(GpuGraphsGpu, ACaptureThatCannotBeginIsAnObstacleAndLeavesNothingBehind) {
  GpuGraphs graphs;
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getDefaultCUDAStream());
    EXPECT_NE(record(graphs), "");
  }
  expect_recorded_and_right(graphs);
}

TEST_F(GpuGraphsGpu, WhatIsForgottenCanBeRecordedAnew) {
  GpuGraphs graphs;
  ASSERT_EQ(record(graphs), "");
  doubled = at::Tensor();
  graphs.forget();
  EXPECT_FALSE(graphs.recorded());
  ASSERT_EQ(record(graphs), "");
  graphs.replay(0);
  graphs.replay(1);
  EXPECT_EQ(total(), 2000);
}

TEST_F(GpuGraphsGpu, RecordingsUseOneMemoryAndOutliveEachOther) {
  const auto large_work = [this] { sum.add_(at::ones({kLarge}, at::kCUDA).sum() / kLarge); };
  GpuGraphs first, second;
  ASSERT_EQ(record(first), "");
  large_work();
  ASSERT_EQ(second.record({large_work}), "");
  const auto with_one = reserved();
  GpuGraphs third;
  ASSERT_EQ(third.record({large_work}), "");
  EXPECT_LT(reserved(), with_one + kLarge);
  second.forget();
  ASSERT_EQ(second.record({large_work}), "");
  third.forget();
  sum.zero_();
  first.replay(0);
  first.replay(1);
  second.replay(0);
  EXPECT_EQ(total(), 3000);
}

}  // namespace
}  // namespace tg
