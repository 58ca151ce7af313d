#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

#include "data/feeder.h"
#include "tests/data/feeder/feeding.h"

namespace tg {
namespace {

using std::chrono::microseconds;

bool has_gpu() {
  return at::hasCUDA() && at::globalContext().hasCUDA() &&
         c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() > 0;
}

class FeederGpuTest : public test::Feeding {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
  }
  static constexpr std::int64_t kLargeBatch = 8 * 4096;

  // Counts wrong tokens in `batches` batches on the device, while the host runs ahead. `work` GEMMs
  // on the compute stream before each comparison make the consumer slow.
  static std::int64_t wrong_tokens(Feeder& feeder, int batches, int work) {
    const auto on_gpu = at::TensorOptions(at::kCUDA);
    const auto matrix = at::ones({1024, 1024}, on_gpu);
    const auto positions = at::arange(kLargeBatch + 1, on_gpu.dtype(at::kLong));
    auto wrong = at::zeros({}, on_gpu.dtype(at::kLong));
    for (std::int64_t i = 0; i < batches; ++i) {
      const auto batch = feeder.next();
      for (int k = 0; k < work; ++k) at::mm(matrix, matrix);
      const auto expected = ((positions + i * (kLargeBatch + 1)) * 7919 + 65000).remainder(65521);
      wrong += (batch.inputs.flatten() != expected.slice(0, 0, -1)).sum();
      wrong += (batch.targets.flatten() != expected.slice(0, 1)).sum();
    }
    return wrong.item<std::int64_t>();
  }
};

// Delays of the reader, in µs per batch, or of the consumer, in GEMMs per batch.
struct Slow {
  int delay = 0, work = 0;
};

TEST_F(FeederGpuTest, TakesIdsOf32Bits) {
  for (const bool copy_stream : {false, true})
    expect_the_stream(source(3, 1, at::kCUDA, kLargeBatch, /*wide=*/true), at::kCUDA, copy_stream,
                      20, kWide);
}

TEST_F(FeederGpuTest, NoBufferIsReusedTooEarly) {
  for (const int queue : {0, 1, 2, 6}) {
    for (const bool copy_stream : {false, true}) {
      for (const auto& [delay, work] :
           {Slow{}, {.work = 8}, {.delay = 2000}, {.delay = 500, .work = 2}}) {
        delay_ = microseconds(delay);
        Feeder feeder(source(queue, queue > 2 ? 3 : 1, at::kCUDA, kLargeBatch), at::kCUDA,
                      copy_stream);
        EXPECT_EQ(wrong_tokens(feeder, 60, work), 0)
            << "queue " << queue << ", copy stream " << copy_stream << ", delay " << delay
            << " us, work " << work;
      }
    }
  }
}

TEST_F(FeederGpuTest, SegmentsKeepTheirAddressUntilABatchHasMoreThanThereIsRoomFor) {
  for (const int queue : {0, 3})
    for (const bool copy_stream : {false, true}) expect_segments(queue, at::kCUDA, copy_stream);
}

TEST_F(FeederGpuTest, TheFirstCopyWaitsForEarlierWorkOnItsMemory) {
  for (int round = 0; round < 5; ++round) {
    const auto on_gpu = at::TensorOptions(at::kCUDA);
    const auto matrix = at::ones({4096, 4096}, on_gpu);
    const int reads = tokens_.reads();
    auto tokens = source(2, 1, at::kCUDA, kLargeBatch);
    tokens_.wait_for_reads(reads + 1);  // the batch is ready
    {
      // Allocates the same tensors as the feeder, in the same order: their memory is reused when
      // they are freed while kernels that fill them are still queued.
      const auto like = at::empty({kLargeBatch + 1}, on_gpu.dtype(at::kLong));
      const auto one = at::empty_like(like, at::kUInt16), other = at::empty_like(one);
      for (int k = 0; k < 20; ++k) at::mm(matrix, matrix);
      one.view(at::kByte).zero_(), other.view(at::kByte).zero_();
    }
    Feeder feeder(std::move(tokens), at::kCUDA, /*copy_stream=*/true);
    EXPECT_EQ(wrong_tokens(feeder, 2, 0), 0) << "round " << round;
  }
}

TEST_F(FeederGpuTest, BatchesKeepTheirAddress) {
  Feeder feeder(source(2, 1, at::kCUDA), at::kCUDA, true);
  const auto* address = feeder.next().inputs.const_data_ptr();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(feeder.next().inputs.const_data_ptr(), address);
}

TEST_F(FeederGpuTest, ReadingAndCopyingOverlapTheConsumersWork) {
  delay_ = microseconds(5000);
  const auto matrix = at::ones({8192, 8192}, at::TensorOptions(at::kCUDA));
  const auto seconds = [&](Feeder& feeder) {
    feeder.next();
    at::mm(matrix, matrix).sum().item<float>();
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) {
      feeder.next();
      // Waits for the GEMM, as a host that cannot run ahead.
      at::mm(matrix, matrix).sum().item<float>();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  Feeder plain(source(0, 1, at::kCUDA, kLargeBatch), at::kCUDA, false);
  Feeder ahead(source(2, 1, at::kCUDA, kLargeBatch), at::kCUDA, true);
  const double slow = seconds(plain), fast = seconds(ahead);
  EXPECT_GE(slow - fast, 0.5 * 20 * 0.005) << slow << " and " << fast << " s";
}

TEST_F(FeederGpuTest, CopiesAreTimedOnTheirStream) {
  for (const bool copy_stream : {false, true}) {
    Feeder feeder(source(2, 1, at::kCUDA, kLargeBatch), at::kCUDA, copy_stream);
    feeder.time_copies(true);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) feeder.next();
    at::zeros({1}, at::TensorOptions(at::kCUDA)).item<float>();
    const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - start;
    const auto times = feeder.take_copy_times();
    ASSERT_EQ(times.size(), 3u);
    double copies = 0;
    for (const auto& [began, ended] : times) {
      EXPECT_GT(began.ms_until(ended), 0);
      copies += began.ms_until(ended);
    }
    EXPECT_LT(copies, all.count());  // one after another
  }
}

}  // namespace
}  // namespace tg
