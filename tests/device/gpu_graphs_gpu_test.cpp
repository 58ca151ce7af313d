// Tests capture and replay on a GPU; skipped without one.
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
  std::string capture(GpuGraphs& graphs) {
    return graphs.capture({[this] { doubled = a * 2; }, [this] { sum.add_(doubled); }});
  }

  void expect_captured_and_right(GpuGraphs& graphs) {
    ASSERT_EQ(capture(graphs), "");
    sum.zero_();
    graphs.replay(0);
    graphs.replay(1);
    EXPECT_EQ(total(), 2000);
  }
  static c10::cuda::CUDAStream side_stream() {
    return c10::cuda::getStreamFromPool(/*isHighPriority=*/true);
  }
  // Returns the address of a tensor that another stream has used. The allocator reuses the address
  // only if it is not in capture mode.
  static const void* address_across_streams() {
    const auto tensor = at::empty({kLarge}, at::kCUDA);
    tensor.record_stream(side_stream());
    return tensor.data_ptr();
  }
  static std::int64_t reserved() {
    using namespace c10::cuda::CUDACachingAllocator;
    emptyCache();
    return getDeviceStats(0).reserved_bytes[0].current;
  }

  // Expects a failed capture to have no effect on later work, neither alone nor among other graphs,
  // whose memory pool it would share.
  void expect_obstacle_without_trace(const std::function<void()>& part, const char* reason) {
    const auto reserved_before = reserved();
    GpuGraphs other, failed;
    for (const bool beside_another : {false, true}) {
      SCOPED_TRACE(beside_another);
      if (beside_another) {
        ASSERT_EQ(capture(other), "");
      }
      const auto obstacle = failed.capture({[this] { doubled = a * 2; }, part});
      EXPECT_NE(obstacle.find(reason), std::string::npos) << obstacle;
      EXPECT_FALSE(failed.captured());
      doubled = at::Tensor();
      if (!beside_another) {
        EXPECT_EQ(reserved(), reserved_before);
      }
      const auto* address = address_across_streams();
      wait_for_gpu();
      EXPECT_EQ(address_across_streams(), address);
      sum.zero_().add_(a * 3);
      EXPECT_EQ(total(), 3000);
      GpuGraphs next;
      expect_captured_and_right(next);
    }
  }

  static constexpr std::int64_t kLarge = std::int64_t{1} << 26;  // 256 MB
  at::Tensor a, sum, doubled;
};

TEST_F(GpuGraphsGpu, PartsRunAtReplayAndPassTensorsOn) {
  GpuGraphs graphs;
  EXPECT_FALSE(graphs.captured());
  ASSERT_EQ(capture(graphs), "");
  EXPECT_EQ(total(), 0);  // captured, but not run
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
    EXPECT_NE(capture(graphs), "");
  }
  expect_captured_and_right(graphs);
}

TEST_F(GpuGraphsGpu, InvalidatedGraphsCanBeCapturedAgain) {
  GpuGraphs graphs;
  ASSERT_EQ(capture(graphs), "");
  doubled = at::Tensor();
  graphs.invalidate();
  EXPECT_FALSE(graphs.captured());
  ASSERT_EQ(capture(graphs), "");
  graphs.replay(0);
  graphs.replay(1);
  EXPECT_EQ(total(), 2000);
}

TEST_F(GpuGraphsGpu, GraphsShareOnePoolAndOutliveEachOther) {
  const auto large_work = [this] { sum.add_(at::ones({kLarge}, at::kCUDA).sum() / kLarge); };
  GpuGraphs first, second;
  ASSERT_EQ(capture(first), "");
  large_work();
  ASSERT_EQ(second.capture({large_work}), "");
  const auto with_one = reserved();
  GpuGraphs third;
  ASSERT_EQ(third.capture({large_work}), "");
  EXPECT_LT(reserved(), with_one + kLarge);
  second.invalidate();
  ASSERT_EQ(second.capture({large_work}), "");
  third.invalidate();
  sum.zero_();
  first.replay(0);
  first.replay(1);
  second.replay(0);
  EXPECT_EQ(total(), 3000);
}

}  // namespace
}  // namespace tg
