#include <atomic>
#include <filesystem>
#include <random>

#include "data/prefetch.h"
#include "data/text_tokens.h"
#include "tests/data/aligned_rows.h"

namespace tg {
namespace {

using test::aligned_order;
using test::aligned_ranks;
using test::Alignment;
using test::documents;
using test::error_of;
using test::expect_part;
using test::expected_rows;
using test::kBos;
using test::next_of;
using test::Shards;
using test::step_of;
using test::TempDir;
using test::Tokens;
using test::write_file;

TEST(AlignedOrderResume, GoesOnWithTheSameRowsBehindEveryBatch) {
  const Shards shards(documents({300, 405, 221, 277, 401}));
  for (const Alignment& alignment :
       {Alignment{.length = 10, .limit = 7}, Alignment{.length = 10},
        Alignment{.length = 10, .limit = 7, .rank = 1, .world = 2, .quirks = true}}) {
    const auto whole = aligned_order(*shards.set, alignment);
    std::vector<LoaderState> states;
    std::vector<Tokens> rows;
    for (int i = 0; i < 100; ++i) {
      rows.push_back(next_of(*whole));
      states.push_back(whole->state());
    }
    const auto resumed = aligned_order(*shards.set, alignment);
    for (std::size_t i = 0; i + 10 < rows.size(); ++i) {
      resumed->restore(states[i]);
      ASSERT_EQ(resumed->state(), states[i]);
      for (std::size_t next = i + 1; next <= i + 10; ++next) {
        ASSERT_EQ(next_of(*resumed), rows[next]) << i;
        ASSERT_EQ(resumed->state(), states[next]) << i;
      }
    }
  }
}

TEST(AlignedOrderResume, GoesOnAfterItsSizeHasChanged) {
  const Shards shards(documents({700, 805, 521, 777, 901}));
  std::mt19937 random(3);
  for (int trial = 0; trial < 100; ++trial) {
    const int world = 1 + static_cast<int>(random() % 8);
    const Alignment alignment{.length = 12,
                              .limit = static_cast<std::int64_t>(4 + random() % 9),
                              .rank = static_cast<int>(random() % static_cast<unsigned>(world)),
                              .world = world,
                              .quirks = trial % 2 == 1};
    const auto whole = aligned_order(*shards.set, alignment),
               resumed = aligned_order(*shards.set, alignment);
    BatchShape shape;
    for (int change = 0; change < 2; ++change) {
      shape.tokens = 1 + static_cast<std::int64_t>(random() % 12);
      shape.segment_limit = alignment.limit + static_cast<std::int64_t>(random() % 3);
      whole->reshape(shape);
      for (auto steps = random() % 8; steps > 0; --steps)
        for (int dealt = 0; dealt < 8; dealt += world) next_of(*whole);
    }
    for (auto within = random() % 8; within > 0; --within) next_of(*whole);
    resumed->reshape(shape);
    resumed->restore(whole->state());
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(resumed->state(), whole->state()) << trial;
      ASSERT_EQ(next_of(*resumed), next_of(*whole)) << trial;
    }
  }
}

TEST(AlignedOrderResume, GoesOnWithAnotherNumberOfRanks) {
  const Shards shards(documents({300, 405, 221, 277, 401}));
  const Alignment alignment{.length = 10, .limit = 7};
  const auto expected = expected_rows(shards.tokens, alignment, 8, 8 * 12);
  LoaderState state;
  auto begin = expected.begin();
  for (const int world : {3, 1, 8, 5, 2, 7}) {
    auto ranks = aligned_ranks(*shards.set, alignment, world);
    for (const auto& rank : ranks) rank->restore(state);
    for (int i = 0; i < 2; ++i, begin += 8)
      ASSERT_EQ(step_of(ranks), std::vector<Tokens>(begin, begin + 8)) << world;
    state = ranks[0]->state();
  }
}

TEST(AlignedOrderResume, RefusesAStateThatItCannotHave) {
  const Shards shards(documents({400}));
  auto order = aligned_order(*shards.set, {.length = 10, .rank = 1, .world = 2});
  for (const LoaderState state : {LoaderState{.token_offset = -1},
                                  {.micro_batches = 8},
                                  {.micro_batches = 3},
                                  {.micro_batches = -2}}) {
    expect_part(error_of(ExitCode::config, [&] { order->restore(state); }), "8 rows on 2 ranks");
  }
}

// Returns how many rows the order reads before the second shard.
std::size_t rows_of_first_shard(const std::vector<Tokens>& tokens, const Alignment& alignment) {
  const Shards shards(tokens);
  auto order = aligned_order(*shards.set, alignment);
  std::size_t rows = 0;
  while (order->advance()->spans.front().begin < std::ssize(tokens[0])) ++rows;
  return rows;
}

TEST(AlignedOrderResume, WhatIsReadAheadIsTheSameAndAnErrorIsTheConsumersAtItsBatch) {
  const Shards shards(documents({700, 405, 221}));
  const Alignment alignment{.length = 10, .limit = 7};
  const auto rows = rows_of_first_shard(shards.tokens, alignment);
  ASSERT_GE(rows, 16);
  const auto expected = expected_rows(shards.tokens, alignment, 8, rows);
  std::filesystem::remove(shards.path(1));
  for (const int workers : {1, 3}) {
    PrefetchSource source(aligned_order(*shards.set, alignment), {.seq_len = 10},
                          {.queue = 4, .workers = workers});
    HostBatch batch;
    for (const auto& row : expected) {
      ASSERT_TRUE(source.next(batch));
      ASSERT_EQ(
          test::narrow(test::listed(ids_at(batch.buffer.get(), batch.tokens, batch.id_bytes))),
          row);
    }
    for (int again = 0; again < 2; ++again) {
      expect_part(error_of(ExitCode::missing_input, [&] { source.next(batch); }), shards.path(1));
    }
  }
}

// An endless text of documents of 20 tokens.
class EndlessText final : public TokenSource {
 public:
  const std::string& pattern() const override { return name_; }
  std::string identity() const override { return name_; }
  std::int64_t tokens(int) const override { fail(ExitCode::internal, "{} has no end", name_); }
  std::int64_t tokens_up_to(std::int64_t limit) const override { return limit; }
  void read_at(std::int64_t offset, const MutableIds& out) const override {
    const auto fill = [&](auto ids) {
      for (auto& token : ids) token = offset++ % 20 == 0 ? kBos : 7;
    };
    std::visit(fill, out);
    if (offset > made_) made_ = offset;
  }
  std::int64_t made() const { return made_; }

 private:
  const std::string name_ = "text";
  mutable std::atomic<std::int64_t> made_ = 0;
};

TEST(AlignedOrderOfText, DoesNotWaitForItsEnd) {
  const EndlessText text;
  auto order = aligned_order(text, {.length = 30});
  for (int row = 0; row < 8 * 100; ++row) ASSERT_EQ(next_of(*order).size(), 31);
  EXPECT_EQ(order->state(), (LoaderState{.token_offset = 8 * 100 * 40}));
  EXPECT_LE(text.made(), 8 * 100 * 40 + (1 << 14));  // reads only a few blocks ahead
}

TEST(AlignedOrderOfText, ReadsItAsOneShardPassAfterPass) {
  const TempDir dir;
  std::string written;
  for (int i = 0; i < 60; ++i)
    written += fmt::format("Document {} grants you a licence to reproduce the work.\n\n", i);
  write_file(dir / "a.txt", written);
  const std::string tokenizer = std::string(TEST_DATA_DIR) + "/data_bpe.model";
  const auto text = TextCorpus({dir / "a.txt"}, Tokenizer(tokenizer, 512), /*threads=*/1).train();
  Tokens all(static_cast<std::size_t>(text->tokens(0)));
  text->read_at(0, all);
  const Shards shards({all});
  const Alignment alignment{.length = 30, .limit = 25, .bos_id = all.front()};
  const auto fresh = TextCorpus({dir / "a.txt"}, Tokenizer(tokenizer, 512), /*threads=*/1).train();
  auto order = aligned_order(*fresh, alignment), expected = aligned_order(*shards.set, alignment);
  while (expected->state().token_offset < 3 * std::ssize(all)) {
    ASSERT_EQ(next_of(*order), next_of(*expected));
    ASSERT_EQ(order->state(), expected->state());
  }
}

}  // namespace
}  // namespace tg
