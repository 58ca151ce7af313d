#include "data/feeder.h"

#include <random>

#include "data/prefetch.h"
#include "data/shard.h"
#include "tests/data/feeder/feeding.h"

namespace tg {
namespace {

class FeederTest : public test::Feeding {};

TEST_F(FeederTest, WidensEveryIdAndShiftsTargetsByOne) {
  Feeder feeder(source(0), at::kCPU, /*copy_stream=*/true);
  const auto batch = feeder.next();
  ASSERT_EQ(batch.inputs.sizes(), (at::IntArrayRef{3, 8}));
  EXPECT_EQ(batch.inputs.dtype(), at::kLong);
  for (std::int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(batch.inputs.flatten()[i].item<std::int64_t>(), token_at(i));
    EXPECT_EQ(batch.targets.flatten()[i].item<std::int64_t>(), token_at(i + 1));
  }
  EXPECT_GT(batch.inputs.max().item<std::int64_t>(),
            40000);  // ids larger than int16's maximum stay positive
}

TEST_F(FeederTest, BatchesKeepTheirAddress) {
  Feeder feeder(source(2), at::kCPU, true);
  const auto* address = feeder.next().inputs.const_data_ptr();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(feeder.next().inputs.const_data_ptr(), address);
}

TEST_F(FeederTest, SegmentsKeepTheirAddressUntilABatchHasMoreThanThereIsRoomFor) {
  for (const int queue : {0, 3}) {
    testing::internal::CaptureStdout();
    expect_segments(queue, at::kCPU, /*copy_stream=*/false);
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "segments: a batch has 71, and room for 64 grows to 128\n");
  }
}

TEST_F(FeederTest, WithoutARuleThereAreNoSegments) {
  Feeder feeder(source(0), at::kCPU, false);
  EXPECT_FALSE(feeder.next().segments.defined());
}

TEST_F(FeederTest, PrefetchChangesNoBatch) {
  expect_the_stream(source(0), at::kCPU, false, 200);
  expect_the_stream(source(1), at::kCPU, true, 200);
  expect_the_stream(source(5, 3), at::kCPU, true, 200);
}

TEST_F(FeederTest, TakesIdsOf32Bits) {
  for (const int queue : {0, 3})
    expect_the_stream(source(queue, 1, at::kCPU, kMicroBatch, /*wide=*/true), at::kCPU, false, 100,
                      kWide);
}

TEST_F(FeederTest, MeasuresItsWaitForTokensWhichAFullQueueAvoids) {
  delay_ = std::chrono::milliseconds(40);  // longer than a busy machine keeps a thread waiting
  Feeder slow(source(0), at::kCPU, false);
  for (int i = 0; i < 5; ++i) slow.next();
  EXPECT_GE(slow.waited_ms(), 200);
  const int reads = tokens_.reads();
  Feeder ahead(source(2), at::kCPU, false);
  tokens_.wait_for_reads(reads + 2);
  ahead.next(), ahead.next();
  EXPECT_LT(ahead.waited_ms(), slow.waited_ms() / 5);
}

TEST_F(FeederTest, TimesItsCopiesWhenAsked) {
  Feeder feeder(source(2), at::kCPU, true);
  feeder.next();
  EXPECT_TRUE(feeder.take_copy_times().empty());
  feeder.time_copies(true);
  feeder.next(), feeder.next();
  const auto times = feeder.take_copy_times();
  ASSERT_EQ(times.size(), 2u);
  EXPECT_GT(times[0].first.ms_until(times[0].second), 0);
  EXPECT_TRUE(feeder.take_copy_times().empty());
}

}  // namespace
}  // namespace tg
