// Tests limits and trials of a GPU's memory; skipped without one.
#include "device/gpu.h"

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "device/fit_rows.h"
#include "device/gpu_memory.h"
#include "tests/base/run_alone.h"
#include "tests/device/failed_gpu.h"

namespace tg {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = kMiB << 10;

at::Tensor bytes(std::int64_t count) {
  return at::empty({count}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
}

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA() || at::cuda::device_count() == 0) GTEST_SKIP() << "no GPU";
    use_gpu(0);
    bytes(1);  // creates the context
  }
};

class GpuMemoryGpu : public OnGpu {
 protected:
  void TearDown() override {
    if (!IsSkipped()) limit_gpu_memory(0);
  }
};

TEST_F(GpuMemoryGpu, ALimitIsTheMemoryOfTheWholeProcess) {
  limit_gpu_memory(4 * kGiB);
  const auto usable = usable_gpu_memory();
  EXPECT_GT(usable, kGiB);
  EXPECT_LT(usable, 4 * kGiB);
  EXPECT_NO_THROW(bytes(usable - 64 * kMiB));
  EXPECT_THROW(bytes(usable + 64 * kMiB), c10::OutOfMemoryError);
}

TEST_F(GpuMemoryGpu, ALimitThatTheContextExceedsIsAUsageError) {
  try {
    limit_gpu_memory(kMiB);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::usage);
    EXPECT_NE(std::string(error.what()).find("MEMORY_LIMIT_GB="), std::string::npos);
  }
}

TEST_F(GpuMemoryGpu, ATrialFailsEarlierAndKeepsThePeakOfAllTime) {
  limit_gpu_memory(4 * kGiB);
  bytes(2 * kGiB);
  {
    const GpuMemoryTrial trial(/*spare=*/2 * kGiB);
    EXPECT_THROW(bytes(2 * kGiB), c10::OutOfMemoryError);
    bytes(256 * kMiB);
    EXPECT_GE(trial.peak(), trial.before() + 256 * kMiB);
    EXPECT_LT(trial.peak(), trial.before() + kGiB);
  }
  EXPECT_NO_THROW(bytes(2 * kGiB));
  EXPECT_GE(gpu_memory_peak().reserved, 2 * kGiB);
}

TEST_F(GpuMemoryGpu, RowsAreAsManyAsFit) {
  limit_gpu_memory(4 * kGiB);
  const auto pass = [](std::int64_t rows) { bytes(rows * 64 * kMiB); };
  const auto fit = fit_rows(divisors(96), kSpareBytes, at::kCUDA, pass);
  EXPECT_LT(fit.rows, 96);
  EXPECT_GE(fit.peak, fit.rows * 64 * kMiB);
  EXPECT_LE(fit.peak, fit.usable);
  // The next larger choice does not fit.
  const auto choices = divisors(96);
  const auto next = *std::upper_bound(choices.begin(), choices.end(), fit.rows);
  EXPECT_GT(next * 64 * kMiB, fit.usable - kSpareBytes - 64 * kMiB);
}

class FailedGpuDeathTest : public OnGpu {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    OnGpu::SetUp();
  }
  // The GPU fails in the pass that tests whether two rows fit, and thereby fails the memory trial.
  static void measure(const std::function<void()>& after_failing) {
    const auto pass = [&](std::int64_t rows) {
      if (rows == 1) return;
      test::break_gpu();
      after_failing();
    };
    test::run_alone([&] { fit_rows({1, 2, 4}, /*spare=*/0, at::kCUDA, pass); });
  }
};

TEST_F(FailedGpuDeathTest, EndsARunWithOneLine) {
  EXPECT_EXIT(measure([] {}), testing::ExitedWithCode(70), test::kOneInternalError);
}

TEST_F(FailedGpuDeathTest, ATrialOfItsMemoryLeavesTheWordsOfTheFirstError) {
  const auto fails_first = [] {
    EXPECT_THROW(wait_for_gpu(), c10::AcceleratorError);
    fail(ExitCode::bad_data, "the pass's own error");
  };
  EXPECT_EXIT(measure(fails_first), testing::ExitedWithCode(65),
              "ERROR exit=65 rank=0: the pass's own error\n$");
}

}  // namespace
}  // namespace tg
