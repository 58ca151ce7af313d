#pragma once
// A feeder over a stream whose tokens are a function of their position, for CPU and GPU tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "data/feeder.h"
#include "data/prefetch.h"
#include "data/token_source.h"

namespace tg::test {

// Micro-batches of 80 tokens in documents that begin with 1: 71 documents in the fifth of every
// eight micro-batches, eight in the others.
class Documents final : public TokenSource {
 public:
  static constexpr std::int64_t kLength = 80, kPass = 8 * (kLength + 1);

  const std::string& pattern() const override { return name_; }
  std::string identity() const override { return name_; }
  std::int64_t tokens(int) const override { return kPass; }
  std::int64_t tokens_up_to(std::int64_t limit) const override { return std::min(limit, kPass); }
  void read_at(std::int64_t offset, const MutableIds& out) const override {
    const auto fill = [&](auto ids) {
      for (auto& token : ids) token = token_at(offset++ % kPass);
    };
    std::visit(fill, out);
  }
  static std::uint16_t token_at(std::int64_t position) {
    const auto batch = position / (kLength + 1), at = position % (kLength + 1);
    const bool begins = batch == 4 ? at < 71 : at % 10 == 3;
    return begins ? 1 : 9;
  }

 private:
  std::string name_ = "documents";
};

class Feeding : public ::testing::Test {
 protected:
  static constexpr std::int64_t kMicroBatch = 24, kSeqLen = 8, kMicroBatches = 8;

  // The first ids exceed int16, to test that they are widened.
  static std::int64_t token_at(std::int64_t position) { return (position * 7919 + 65000) % 65521; }
  static constexpr std::int64_t kWide = 100'000;  // added to ids of 32 bits

  // Sleeps in each read, like slow storage, and counts finished reads.
  class Tokens final : public TokenSource {
   public:
    explicit Tokens(const std::chrono::microseconds& delay, int id_bytes = sizeof(NarrowId))
        : delay_(delay), id_bytes_(id_bytes) {}
    int reads() const { return reads_; }
    void wait_for_reads(int count) const {
      for (int seen = reads_; seen < count; seen = reads_) reads_.wait(seen);
    }
    const std::string& pattern() const override { return name_; }
    std::string identity() const override { return name_; }
    std::int64_t tokens(int) const override { return std::int64_t{1} << 40; }
    std::int64_t tokens_up_to(std::int64_t limit) const override { return limit; }
    int id_bytes() const override { return id_bytes_; }
    void read_at(std::int64_t offset, const MutableIds& out) const override {
      std::this_thread::sleep_for(delay_);
      const auto fill = [&]<class Id>(std::span<Id> ids) {
        const auto more = sizeof(Id) == sizeof(TokenId) ? kWide : 0;
        for (auto& id : ids) id = static_cast<Id>(token_at(offset++) + more);
      };
      std::visit(fill, out);
      ++reads_;
      reads_.notify_all();
    }

   private:
    std::string name_ = "numbers";
    const std::chrono::microseconds& delay_;
    int id_bytes_;
    mutable std::atomic<int> reads_ = 0;
  };

  // queue 0: no prefetch.
  std::unique_ptr<BatchSource> source(int queue, int workers = 1, at::Device device = at::kCPU,
                                      std::int64_t micro_batch = kMicroBatch, bool wide = false) {
    std::optional<PrefetchOptions> ahead;
    if (queue > 0) ahead = {.queue = queue, .workers = workers};
    return make_source(std::make_unique<StreamOrder>(wide ? wide_ : tokens_, micro_batch,
                                                     kMicroBatches, /*rank=*/0, /*world_size=*/1),
                       {.seq_len = kSeqLen}, ahead, batch_allocator(device));
  }

  // Expects every batch of a feeder to be the stream's next one.
  static void expect_the_stream(std::unique_ptr<BatchSource> source, at::Device device,
                                bool copy_stream, int batches, std::int64_t more = 0) {
    const auto span = source->span_tokens();
    Feeder feeder(std::move(source), device, copy_stream);
    for (std::int64_t i = 0; i < batches; ++i) {
      const auto batch = feeder.next();
      const auto positions =
          at::arange(i * span, (i + 1) * span, at::TensorOptions(device).dtype(at::kLong));
      const auto expected = (positions * 7919 + 65000).remainder(65521) + more;
      ASSERT_TRUE(batch.inputs.flatten().equal(expected.slice(0, 0, -1))) << i;
      ASSERT_TRUE(batch.targets.flatten().equal(expected.slice(0, 1))) << i;
    }
  }

  // Expects the segments of every batch of Documents at one address, and from the fifth batch on,
  // which has more segments, at another.
  static void expect_segments(int queue, at::Device device, bool copy_stream) {
    constexpr auto kLength = Documents::kLength;
    const Documents tokens;
    const SegmentRule rule{.bos_id = 1, .limit = 75};
    std::optional<PrefetchOptions> ahead;
    if (queue > 0) ahead = {.queue = queue, .workers = 2};
    Feeder feeder(
        make_source(std::make_unique<StreamOrder>(tokens, kLength, 8, /*rank=*/0,
                                                  /*world_size=*/1),
                    {.seq_len = kLength, .segments = rule}, ahead, batch_allocator(device)),
        device, copy_stream);
    std::set<const void*> addresses;
    for (std::int64_t i = 0; i < 24; ++i) {
      const auto batch = feeder.next();
      addresses.insert(batch.segments.const_data_ptr());
      ASSERT_EQ(batch.segments.dtype(), at::kInt);
      ASSERT_EQ(batch.segments.numel(), i < 4 ? 65 : 129) << i;
      std::vector<std::uint16_t> inputs(kLength);
      tokens.read_at(i * (kLength + 1), inputs);
      auto expected = segment_starts(inputs, kLength, rule);
      expected.resize(static_cast<std::size_t>(batch.segments.numel()), kLength);
      ASSERT_TRUE(batch.segments.cpu().equal(at::tensor(expected, at::kInt))) << i;
    }
    EXPECT_EQ(addresses.size(), 2u);
  }

  std::chrono::microseconds delay_{0};
  Tokens tokens_{delay_};
  Tokens wide_{delay_, sizeof(TokenId)};
};

}  // namespace tg::test
