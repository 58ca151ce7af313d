// Recording and replaying on a GPU; skipped where there is none.
#include "train/gpu.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>

#include "ops/gpu_graphs.h"

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
  GpuGraphs graphs;
  const auto obstacle = graphs.record({[this] { sum.add_(a.sum().item<double>()); }});
  EXPECT_NE(obstacle, "");
  EXPECT_FALSE(graphs.recorded());
  // Launched work, allocations and another recording are as if nothing had been tried.
  sum.add_(a * 3);
  EXPECT_EQ(total(), 3000);
  ASSERT_EQ(record(graphs), "");
  graphs.replay(0);
  graphs.replay(1);
  EXPECT_EQ(total(), 5000);
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
  constexpr std::int64_t kLarge = std::int64_t{1} << 26;  // 256 MB
  const auto large_work = [this] { sum.add_(at::ones({kLarge}, at::kCUDA).sum() / kLarge); };
  GpuGraphs first, second;
  ASSERT_EQ(record(first), "");
  large_work();
  const auto reserved = [] { return gpu_memory_peak().reserved; };
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
