#include "data/documents_order.h"

#include <algorithm>
#include <array>
#include <random>

#include "data/prefetch.h"
#include "data/text_tokens.h"
#include "tests/data/corpus.h"
#include "tests/data/document_shards.h"

namespace tg {
namespace {

using test::documents;
using test::error_of;
using test::expect_part;
using test::kBos;
using test::next_of;
using test::Shards;
using test::TempDir;
using test::Tokens;
using test::write_file;

// Returns the rows of all ranks in order: rounds of `of_round` rows of L + 1 tokens at the cursor,
// which starts at a shard's first BOS and moves to the next shard if fewer tokens remain.
std::vector<Tokens> expected_rows(const std::vector<Tokens>& shards, std::size_t span,
                                  std::size_t of_round, std::size_t count) {
  const auto first = [](const Tokens& shard) {
    return static_cast<std::size_t>(std::ranges::find(shard, kBos) - shard.begin());
  };
  std::vector<Tokens> rows;
  std::size_t shard = 0, cursor = first(shards[0]);
  while (rows.size() < count) {
    if (cursor + of_round * span > shards[shard].size()) {
      shard = (shard + 1) % shards.size();
      cursor = first(shards[shard]);
      continue;
    }
    for (std::size_t row = 0; row < of_round; ++row, cursor += span) {
      const auto begin = shards[shard].begin() + static_cast<std::ptrdiff_t>(cursor);
      rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(span));
    }
  }
  return rows;
}

struct Rank {
  int rank = 0, world = 1;
  bool quirks = false;  // rounds as in the reference implementation
};

std::unique_ptr<DocumentsOrder> order_of(const TokenSource& source, std::int64_t length,
                                         const Rank& options = {}, std::int64_t bos = kBos) {
  const DocumentRows rows{
      .tokens = length, .of_step = 8, .of_round = options.quirks ? options.world : 8};
  return std::make_unique<DocumentsOrder>(source, rows, bos, options.rank, options.world);
}

std::vector<std::unique_ptr<DocumentsOrder>> ranks_of(const TokenSource& source,
                                                      std::int64_t length, int world,
                                                      bool quirks = false) {
  std::vector<std::unique_ptr<DocumentsOrder>> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(order_of(source, length, {.rank = rank, .world = world, .quirks = quirks}));
  }
  return ranks;
}

// Returns the rows that the ranks read in a step, by row number.
std::vector<Tokens> step_of(std::vector<std::unique_ptr<DocumentsOrder>>& ranks) {
  std::vector<Tokens> rows;
  for (std::size_t dealt = 0; dealt < 8; dealt += ranks.size()) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      auto row = next_of(*ranks[rank]);
      EXPECT_EQ(row.empty(), dealt + rank >= 8);
      if (!row.empty()) rows.push_back(std::move(row));
    }
  }
  return rows;
}

TEST(DocumentsOrder, ReadsTheSameRowsOnAnyNumberOfRanks) {
  const Shards shards(documents({300, 205, 121, 177, 401}));
  constexpr int length = 10, steps = 12;
  const auto expected = expected_rows(shards.tokens, length + 1, 8, 8 * steps);
  std::vector<LoaderState> states;
  for (int world = 1; world <= 8; ++world) {
    SCOPED_TRACE(world);
    auto ranks = ranks_of(*shards.set, length, world);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(8 * step);
      ASSERT_EQ(step_of(ranks), std::vector<Tokens>(begin, begin + 8)) << step;
      if (world == 1) states.push_back(ranks[0]->state());
      for (const auto& rank : ranks) EXPECT_EQ(rank->state(), states[step]) << step;
    }
  }
}

TEST(DocumentsOrder, WithARoundOfARowARankReadsWhatTheReferenceReads) {
  const Shards shards(documents({300, 205, 121, 177, 401}));
  constexpr int length = 10, steps = 20;
  for (const int world : {1, 2, 4, 8}) {
    const auto of_round = static_cast<std::size_t>(world);
    const auto expected = expected_rows(shards.tokens, length + 1, of_round, 8 * steps);
    auto ranks = ranks_of(*shards.set, length, world, /*quirks=*/true);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(8 * step);
      ASSERT_EQ(step_of(ranks), std::vector<Tokens>(begin, begin + 8)) << world << " " << step;
    }
  }
  // If the rounds do not divide a step, its last round has fewer rows.
  auto ranks = ranks_of(*shards.set, length, 3, /*quirks=*/true);
  const auto first = step_of(ranks);
  for (std::size_t row = 1; row < 8; ++row) EXPECT_NE(first[row], first[row - 1]);
}

TEST(DocumentsOrder, AShardBeginsAtItsFirstDocumentAndItsRestIsDropped) {
  Tokens one(50, 9), other(60, 8);
  one[7] = kBos;
  other[19] = kBos;
  const Shards shards({one, other});
  auto order = order_of(*shards.set, /*length=*/4);
  // 8 rows of 5 tokens: 7 + 40 of 50, then 50 + 19 + 40 of 60.
  std::vector<std::int64_t> begins;
  for (int row = 0; row < 8 * 3; ++row) begins.push_back(order->advance()->spans.front().begin);
  EXPECT_EQ(begins[0], 7);
  EXPECT_EQ(begins[7], 7 + 7 * 5);
  EXPECT_EQ(begins[8], 50 + 19);
  EXPECT_EQ(begins[16], 7);
  EXPECT_EQ(order->state(), (LoaderState{.token_offset = 110 + 7 + 40}));
}

TEST(DocumentsOrder, AShardWithoutARoundIsPassedOverWithOneWarning) {
  auto tokens = documents({200, 60, 200});
  tokens.push_back(Tokens(500, 9));  // no document begins here
  const Shards shards(tokens);
  const auto expected = expected_rows({shards.tokens[0], shards.tokens[2]}, 11, 8, 8 * 6);
  auto order = order_of(*shards.set, 10);
  testing::internal::CaptureStderr();
  for (const auto& row : expected) ASSERT_EQ(next_of(*order), row);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
  expect_part(
      said,
      "fineweb_train_000001.bin is passed over: from its first document on (BOS_ID=1) it has ");
  expect_part(said, " tokens, fewer than the 88 that ");
  expect_part(
      said,
      "fineweb_train_000003.bin is passed over: from its first document on (BOS_ID=1) it has 0 ");
}

TEST(DocumentsOrder, RefusesShardsOfWhichNoneHasARoundInsteadOfLoopingForEver) {
  Tokens tokens(100, 9);
  tokens[12] = kBos;
  const Shards shards({tokens, Tokens(50, kBos)});
  EXPECT_NO_THROW(order_of(*shards.set, 10));
  const auto message = error_of(ExitCode::bad_data, [&] { order_of(*shards.set, 11); });
  expect_part(message, "fineweb_train_*.bin: no shard is long enough");
  expect_part(
      message,
      "expected, from its first document on, 96 tokens for 8 rows of 11, found at most 88)");
  expect_part(error_of(ExitCode::bad_data, [&] { order_of(*shards.set, 10, {}, /*bos=*/50256); }),
              "no document begins (expected the token BOS_ID=50256");
}

TEST(DocumentsOrder, ResumesFromARandomPositionAfterItsSizeHasChanged) {
  const Shards shards(documents({300, 205, 121, 177, 401}));
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int world = 1 + static_cast<int>(random() % 8);
    const bool quirks = trial % 2 == 1;
    const Rank rank{.rank = static_cast<int>(random() % static_cast<unsigned>(world)),
                    .world = world,
                    .quirks = quirks};
    const auto whole = order_of(*shards.set, 12, rank), resumed = order_of(*shards.set, 12, rank);
    const auto read_steps = [&](DocumentsOrder& order, int steps) {
      for (int i = 0; i < steps * ((8 + world - 1) / world); ++i) next_of(order);
    };
    read_steps(*resumed, static_cast<int>(random() % 12));
    std::int64_t length = 12;
    for (int change = 0; change < 2; ++change) {
      length = 1 + static_cast<std::int64_t>(random() % 12);
      whole->reshape({.tokens = length});
      read_steps(*whole, static_cast<int>(random() % 12));
    }
    for (auto within = random() % 8; within > 0; --within) next_of(*whole);
    resumed->reshape({.tokens = length});
    resumed->restore(whole->state());
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(resumed->state(), whole->state()) << trial;
      ASSERT_EQ(next_of(*resumed), next_of(*whole)) << trial;
    }
  }
}

TEST(DocumentsOrder, GoesOnWithAnotherNumberOfRanks) {
  const Shards shards(documents({300, 205, 121, 177, 401}));
  const auto expected = expected_rows(shards.tokens, 11, 8, 8 * 12);
  LoaderState state;
  std::size_t step = 0;
  for (const int world : {3, 1, 8, 5, 2, 7}) {
    auto ranks = ranks_of(*shards.set, 10, world);
    for (const auto& rank : ranks) rank->restore(state);
    for (int i = 0; i < 2; ++i, ++step) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(8 * step);
      ASSERT_EQ(step_of(ranks), std::vector<Tokens>(begin, begin + 8)) << step;
    }
    state = ranks[0]->state();
  }
}

TEST(DocumentsOrder, RefusesAStateThatItCannotHave) {
  const Shards shards(documents({300}));
  auto order = order_of(*shards.set, 10, {.rank = 1, .world = 2});
  for (const LoaderState state : {LoaderState{.token_offset = -1},
                                  {.micro_batches = 8},
                                  {.micro_batches = 3},
                                  {.micro_batches = -2}}) {
    expect_part(error_of(ExitCode::config, [&] { order->restore(state); }), "8 rows on 2 ranks");
  }
}

TEST(DocumentsOrder, ReadsTextAsAShardWhoseEndItNeedNotKnow) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += fmt::format("Document {} grants you a licence to reproduce the work.\n\n", i);
  }
  write_file(dir / "a.txt", text);
  const std::string tokenizer = std::string(TEST_DATA_DIR) + "/data_bpe.model";
  const auto train = TextCorpus({dir / "a.txt"}, Tokenizer(tokenizer, 512), /*threads=*/1).train();
  Tokens all(static_cast<std::size_t>(train->tokens(0)));
  train->read_at(0, all);
  const auto bos = all.front();
  std::ranges::replace(all, bos, kBos);
  constexpr std::size_t span = 21;
  ASSERT_GT(all.size(), 2 * 8 * span);  // so this reads three passes
  const auto expected = expected_rows({all}, span, 8, 3 * (all.size() / span));

  const auto fresh = TextCorpus({dir / "a.txt"}, Tokenizer(tokenizer, 512), /*threads=*/1).train();
  auto order = order_of(*fresh, span - 1, {}, bos);
  LoaderState middle;
  for (std::size_t row = 0; row < expected.size(); ++row) {
    auto found = next_of(*order);
    std::ranges::replace(found, bos, kBos);
    ASSERT_EQ(found, expected[row]) << row;
    if (row == expected.size() / 2) middle = order->state();
  }
  EXPECT_GT(order->state().token_offset, 2 * fresh->tokens(0));
  auto resumed = order_of(*fresh, span - 1, {}, bos);
  resumed->restore(middle);
  auto found = next_of(*resumed);
  std::ranges::replace(found, bos, kBos);
  EXPECT_EQ(found, expected[expected.size() / 2 + 1]);
}

TEST(DocumentsOrder, WhatIsReadAheadIsTheSameAndAnErrorIsTheConsumersAtItsBatch) {
  const Shards shards(documents({300, 205, 400}));
  const auto expected = expected_rows(shards.tokens, 11, 8, 8 * 3);
  std::filesystem::remove(shards.path(1));
  for (const int workers : {1, 3}) {
    PrefetchSource source(order_of(*shards.set, 10), {.seq_len = 10},
                          {.queue = 4, .workers = workers});
    HostBatch batch;
    for (std::size_t row = 0; row < 24; ++row) {
      ASSERT_TRUE(source.next(batch));
      EXPECT_EQ(batch.seq_len, 10);
      ASSERT_EQ(
          test::narrow(test::listed(ids_at(batch.buffer.get(), batch.tokens, batch.id_bytes))),
          expected[row]);
    }
    for (int again = 0; again < 2; ++again) {
      expect_part(error_of(ExitCode::missing_input, [&] { source.next(batch); }), shards.path(1));
    }
  }
}

}  // namespace
}  // namespace tg
