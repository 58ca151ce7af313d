// Tests several variants of one work, captured on a GPU; skipped without one.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/captured_graph.h"
#include "device/gpu.h"

namespace tg {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

class CapturedGraphGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    use_gpu(0);
    at::manual_seed(1);
    x = at::randn({kRows, kColumns}, at::kCUDA);
    weight = at::randn({kColumns, kColumns}, at::kCUDA) / 16;
    result = at::zeros({kRows}, at::kCUDA);
  }
  // Frees memory that would count in other tests of this process.
  void TearDown() override {
    if (IsSkipped()) return;
    at::cuda::clearCublasWorkspaces();
    allocator::emptyCache();
  }
  // Variant n has n + 1 layers; the first part returns the outputs of all of them.
  CapturedGraph make(bool graphs) {
    return {"the work",
            {[this] {
               layers = {x};
               for (std::int64_t i = 0; i <= form; ++i)
                 layers.push_back(at::matmul(layers.back(), weight).tanh_());
             },
             [this] {
               result.copy_(layers.back().sum(1));
               layers.clear();
             }},
            at::kCUDA,
            graphs};
  }
  at::Tensor run(CapturedGraph& work, std::int64_t of_form) {
    form = of_form;
    work.select(form);
    work.run(0);
    work.run(1);
    return result.clone();
  }
  static std::int64_t reserved() {
    wait_for_gpu();
    allocator::emptyCache();
    return allocator::getDeviceStats(0).reserved_bytes[0].current;
  }

  static constexpr std::int64_t kRows = 1 << 16, kColumns = 256, kLayerBytes = kRows * kColumns * 4;
  at::Tensor x, weight, result;
  std::vector<at::Tensor> layers;
  std::int64_t form = 0;
};

TEST_F(CapturedGraphGpu, FormsThatAlternateAreCapturedOnceEachAndGiveTheBitsOfEagerRuns) {
  auto eager = make(false), work = make(true);
  for (int round = 0; round < 5; ++round) {
    for (const std::int64_t of_form : {0, 2}) {
      x.mul_(0.9);
      const auto expected = run(eager, of_form), found = run(work, of_form);
      EXPECT_TRUE(at::equal(found, expected)) << "round " << round << " form " << of_form;
    }
    EXPECT_EQ(work.captures(), round == 0 ? 0 : 2);
  }
  work.invalidate();
  const auto expected = run(eager, 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(run(work, 2), expected));
  EXPECT_EQ(work.captures(), 3);
  EXPECT_EQ(eager.captures(), 0);
}

TEST_F(CapturedGraphGpu, ASecondFormIsCapturedIntoTheMemoryOfTheFirst) {
  auto work = make(true);
  const auto capture = [&](std::int64_t of_form) {
    allocator::resetPeakStats(0);
    for (int i = 0; i < 3; ++i) run(work, of_form);
    const auto peak = allocator::getDeviceStats(0).reserved_bytes[0].peak;
    const auto kept = reserved();
    fmt::print("{} captures: {} MiB kept, at most {}\n", work.captures(), kept >> 20, peak >> 20);
    return kept;
  };
  const auto none = reserved();
  const auto with_one = capture(2);
  EXPECT_GE(with_one - none, 2 * kLayerBytes);
  const auto with_two = capture(1);
  ASSERT_EQ(work.captures(), 2);
  EXPECT_LT(with_two - with_one, kLayerBytes / 2);
  const auto with_a_larger_one = capture(4);
  EXPECT_LT(with_a_larger_one - with_two, 3 * kLayerBytes);
}

}  // namespace
}  // namespace tg
