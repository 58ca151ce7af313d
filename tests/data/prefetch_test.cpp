#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "data/shard.h"
#include "tests/data/shards.h"

namespace tg {
namespace {

using test::TempDir;

constexpr int kVocab = 60000;
constexpr std::int64_t kTokens = 24, kSeqLen = 8, kMicroBatches = 8;
constexpr BatchLayout kLayout{.seq_len = kSeqLen};

// Three shards of different sizes; token i of the split is i.
class Prefetch : public ::testing::Test {
 protected:
  void SetUp() override {
    int first = 0;
    for (int shard = 0; shard < 3; ++shard) {
      const int tokens = 701 + 97 * shard;
      test::write_file(folder_ / fmt::format("fineweb_train_{:06}.bin", shard),
                       test::shard_bytes(test::counting(tokens, first)));
      first += tokens;
    }
    shards_ = std::make_unique<ShardSet>(folder_.path(), "train", kVocab);
  }

  std::unique_ptr<TokenOrder> stream(int rank = 0, int world = 1) const {
    return std::make_unique<StreamOrder>(*shards_, kTokens, kMicroBatches, rank, world);
  }
  std::unique_ptr<TokenOrder> strided(int rank = 0, int world = 1) const {
    return std::make_unique<StridedOrder>(*shards_, kTokens, rank, world, true);
  }

  TempDir folder_;
  std::unique_ptr<ShardSet> shards_;
};

std::vector<TokenId> tokens_of(const HostBatch& batch) {
  std::vector<TokenId> tokens;
  std::visit([&](auto ids) { tokens.assign(ids.begin(), ids.end()); }, batch.inputs());
  std::visit([&](auto ids) { tokens.push_back(ids.back()); }, batch.targets());
  return tokens;
}

// Returns tokens and position of `count` rounds, as a consumer sees them.
std::vector<std::pair<std::vector<TokenId>, std::int64_t>> drain(BatchSource& source, int count) {
  std::vector<std::pair<std::vector<TokenId>, std::int64_t>> seen;
  HostBatch batch;
  for (int i = 0; i < count; ++i) {
    source.next(batch);
    EXPECT_EQ(source.state(), batch.after);
    seen.emplace_back(tokens_of(batch), batch.after.token_offset + batch.after.micro_batches);
  }
  return seen;
}

TEST_F(Prefetch, TokensNeverDependOnDepthWorkersOrOrder) {
  for (const auto& [rank, world] : {std::pair{0, 1}, {1, 3}, {2, 5}}) {
    for (const bool is_stream : {true, false}) {
      const auto order = [&] { return is_stream ? stream(rank, world) : strided(rank, world); };
      OrderedSource plain(order(), kLayout);
      const auto expected = drain(plain, 300);
      for (const int queue : {1, 2, 7}) {
        for (const int workers : {1, 2, 5}) {
          PrefetchSource ahead(order(), kLayout, {.queue = queue, .workers = workers});
          EXPECT_EQ(drain(ahead, 300), expected) << queue << " deep, " << workers << " workers";
        }
      }
    }
  }
}

TEST_F(Prefetch, ResumesAtTheConsumersPositionNotTheReaders) {
  std::mt19937 random(1);
  for (int attempt = 0; attempt < 30; ++attempt) {
    const int used = static_cast<int>(random() % 100);
    PrefetchSource source(attempt % 2 == 0 ? stream() : strided(), kLayout,
                          {.queue = 5, .workers = 3});
    drain(source, used);
    const auto position = source.state();
    const auto expected = drain(source, 20);

    PrefetchSource fresh(attempt % 2 == 0 ? stream() : strided(), kLayout,
                         {.queue = 3, .workers = 2});
    fresh.restore(position);
    EXPECT_EQ(drain(fresh, 20), expected) << "after " << used;
    source.restore(position);
    EXPECT_EQ(drain(source, 20), expected) << "rewound after " << used;
  }
}

TEST_F(Prefetch, WhatWasReadAheadIsReadAgainInAnotherShape) {
  for (const bool is_stream : {true, false}) {
    const auto order = [&] { return is_stream ? stream() : strided(); };
    OrderedSource plain(order(), kLayout);
    PrefetchSource ahead(order(), kLayout, {.queue = 5, .workers = 3});
    EXPECT_EQ(drain(ahead, 2 * kMicroBatches), drain(plain, 2 * kMicroBatches));
    for (const BatchShape shape :
         {BatchShape{kTokens / 2, kSeqLen / 2}, BatchShape{kTokens, kSeqLen}}) {
      plain.reshape(shape);
      ahead.reshape(shape);
      EXPECT_EQ(drain(ahead, 3 * kMicroBatches), drain(plain, 3 * kMicroBatches));
      HostBatch batch;
      for (auto* source : {static_cast<BatchSource*>(&plain), static_cast<BatchSource*>(&ahead)}) {
        for (int i = 0; i < kMicroBatches; ++i) source->next(batch);
        EXPECT_EQ(batch.tokens, shape.tokens + 1);
        EXPECT_EQ(batch.seq_len, shape.seq_len);
      }
    }
  }
}

TEST_F(Prefetch, DestructionNeverHangs) {
  std::mt19937 random(2);
  for (int attempt = 0; attempt < 200; ++attempt) {
    PrefetchSource source(stream(), kLayout,
                          {.queue = 1 + attempt % 4, .workers = 1 + attempt % 3});
    drain(source, static_cast<int>(random() % 4));
  }
}

// Counts started reads, and fails at batch `failing`.
class CountedOrder final : public TokenOrder {
 public:
  CountedOrder(const ShardSet& shards, std::atomic<int>& reads, int failing = -1)
      : TokenOrder(shards),
        order_(shards, kTokens, kMicroBatches, 0, 1),
        reads_(reads),
        failing_(failing) {}
  std::optional<Place> advance() override { return order_.advance(); }
  LoaderState state() const override { return order_.state(); }
  void restore(const LoaderState& state) override { order_.restore(state); }
  std::int64_t span_tokens() const override { return order_.span_tokens(); }
  void read(std::int64_t begin, const MutableIds& out) const override {
    ++reads_;
    reads_.notify_all();
    if (begin == failing_ * (kTokens + 1)) fail(ExitCode::io, "planted at token {}", begin);
    TokenOrder::read(begin, out);
  }

 private:
  StreamOrder order_;
  std::atomic<int>& reads_;
  int failing_;
};

TEST_F(Prefetch, ReadsWhileTheConsumerWorks) {
  constexpr int kBatches = 25, kQueue = 3;
  HostBatch batch;
  for (const int workers : {1, 2}) {
    std::atomic<int> reads = 0;
    PrefetchSource ahead(std::make_unique<CountedOrder>(*shards_, reads), kLayout,
                         {.queue = kQueue, .workers = workers});
    for (int had = 1; had <= kBatches; ++had) {
      ahead.next(batch);
      // Simulates the consumer's work, until the queue is full.
      for (int seen = reads; seen < had + kQueue; seen = reads) reads.wait(seen);
      EXPECT_EQ(reads, had + kQueue);
    }
  }
  std::atomic<int> reads = 0;
  OrderedSource plain(std::make_unique<CountedOrder>(*shards_, reads), kLayout);
  for (int had = 1; had <= kBatches; ++had) {
    plain.next(batch);
    EXPECT_EQ(reads, had);
  }
}

TEST_F(Prefetch, AWorkersErrorIsRethrownAtItsBatchUntilARestore) {
  for (const int workers : {1, 3}) {
    std::atomic<int> reads = 0;
    PrefetchSource source(std::make_unique<CountedOrder>(*shards_, reads, 11), kLayout,
                          {.queue = 4, .workers = workers});
    const auto before = drain(source, 11);
    HostBatch batch;
    for (int again = 0; again < 3; ++again) {
      const auto message = test::error_of(ExitCode::io, [&] { source.next(batch); });
      EXPECT_EQ(message, "planted at token 275");
    }
    // The consumer is past its last batch, and restoring the start repeats all batches.
    EXPECT_EQ(source.state().token_offset, 11 * (kTokens + 1));
    source.restore({});
    EXPECT_EQ(drain(source, 11), before);
  }
}

TEST_F(Prefetch, AShardTruncatedWhileInUseIsNamed) {
  PrefetchSource source(stream(), kLayout, {.queue = 2, .workers = 1});
  HostBatch batch;
  source.next(batch);
  std::filesystem::resize_file(folder_ / "fineweb_train_000001.bin", 1024 + 2 * 10);
  const auto message = test::error_of(ExitCode::bad_data, [&] { drain(source, 200); });
  EXPECT_NE(message.find("fineweb_train_000001.bin"), std::string::npos) << message;
}

}  // namespace
}  // namespace tg
