#include "data/validation.h"

#include "data/shard.h"
#include "tests/data/corpus.h"

namespace tg {
namespace {

using test::Corpus;
using test::error_of;
using test::expect_part;
using test::next_of;
using test::strided_order;
using test::Tokens;

// Four rows of up to 3 sequences of 8; the last row has 2.
TEST(PlanRows, AreTheSameOnAnyNumberOfRanksAndCoverTheSplitOnce) {
  const auto whole = plan_rows(88, 8, 3, 0, 1, /*quirks=*/false).places;
  ASSERT_EQ(whole.size(), 4U);
  EXPECT_EQ(whole.back().begin, 72);
  EXPECT_EQ(whole.back().tokens, 17);
  for (int world = 1; world <= 6; ++world) {
    std::vector<std::int64_t> begins;
    for (int rank = 0; rank < world; ++rank) {
      const auto plan = plan_rows(88, 8, 3, rank, world, /*quirks=*/false);
      EXPECT_EQ(plan.count, std::ssize(plan.places));
      for (const auto& place : plan.places) begins.push_back(place.begin);
    }
    EXPECT_EQ(begins, (std::vector<std::int64_t>{0, 24, 48, 72})) << world;
  }
}

// Rank 0 has 5 and rank 1 has 6 of 11 sequences: one and two rows of 3.
TEST(PlanRows, WithTheScriptsQuirksAreEachRanksWholeOnes) {
  const auto begins = [](int rank) {
    std::vector<std::int64_t> found;
    for (const auto& place : plan_rows(88, 8, 3, rank, 2, /*quirks=*/true).places) {
      EXPECT_EQ(place.tokens, 25);
      found.push_back(place.begin);
    }
    return found;
  };
  EXPECT_EQ(begins(0), std::vector<std::int64_t>{0});
  EXPECT_EQ(begins(1), (std::vector<std::int64_t>{40, 64}));
}

TEST(ValidationPlan, KeepsWholeSequencesOfTheLongerLength) {
  const Corpus corpus({40, 61}, "val");
  const ShardSet shards(corpus.dir.path(), "val", 65536);
  struct Lengths {
    std::int64_t train, eval = 0, limit = 0;
  };
  const auto predictions = [&](const Lengths& lengths) {
    return trimmed_predictions(shards, lengths.train, lengths.eval, lengths.limit);
  };
  EXPECT_EQ(predictions({.train = 10}), 100);
  EXPECT_EQ(predictions({.train = 8, .eval = 16}), 96);
  EXPECT_EQ(predictions({.train = 16, .eval = 8}), 96);
  EXPECT_EQ(predictions({.train = 10, .eval = 10, .limit = 59}), 50);
  EXPECT_EQ(predictions({.train = 100}), 100);
  const auto message =
      error_of(ExitCode::bad_data, [&] { predictions({.train = 16, .eval = 101}); });
  expect_part(message, "expected at least 102 tokens, found 101");
  error_of(ExitCode::bad_data, [&] { predictions({.train = 16, .eval = 16, .limit = 15}); });
}

// Each sequence once, for any number of ranks, also if they get different numbers.
TEST(ValidationPlan, EverySequenceIsScoredByOneRank) {
  for (int world = 1; world <= 8; ++world) {
    std::int64_t next = 0;
    for (int rank = 0; rank < world; ++rank) {
      const auto plan = plan_stream(/*predictions=*/96, /*seq_len=*/8, /*at_once=*/2, rank, world);
      for (const TokenSpan& place : plan.places) {
        EXPECT_EQ(place.begin, next);
        EXPECT_LE(place.tokens, 17);
        next += place.tokens - 1;
      }
    }
    EXPECT_EQ(next, 96) << world;
  }
}

TEST(ValidationPlan, CutsStridedBatchesIntoParts) {
  const Corpus corpus({100, 70}, "val");
  const ShardSet shards(corpus.dir.path(), "val", 65536);
  // Batches of 4 sequences, in parts of 3 and 1.
  const auto plan = plan_strided(shards, /*batches=*/5, /*sequences=*/4, /*seq_len=*/8,
                                 /*at_once=*/3, /*rank=*/0, /*world_size=*/1);
  EXPECT_EQ(plan.places_in_batch, 2);
  EXPECT_EQ(plan.count, 10);
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (const TokenSpan& place : plan.places) places.emplace_back(place.begin, place.tokens);
  EXPECT_EQ(places, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 25},
                                                                        {24, 9},
                                                                        {32, 25},
                                                                        {56, 9},
                                                                        {64, 25},
                                                                        {88, 9},
                                                                        {100, 25},
                                                                        {124, 9},
                                                                        {132, 25},
                                                                        {156, 9}}));
}

TEST(ValidationPlan, ListsOnePassHoweverManyTheStridedOrderMakes) {
  const Corpus corpus({49, 60, 77}, "val");
  const ShardSet shards(corpus.dir.path(), "val", 65536);
  for (int rank = 0; rank < 3; ++rank) {
    const auto plan =
        plan_strided(shards, /*batches=*/std::int64_t{1} << 40, /*sequences=*/2, /*seq_len=*/3,
                     /*at_once=*/1, rank, /*world_size=*/3);
    EXPECT_EQ(plan.count, std::int64_t{1} << 41);
    EXPECT_LE(plan.places.size(), 2u * 186 / 6);
    ListedOrder listed(shards, plan.places, plan.count);
    auto strided = strided_order(shards, {.sequences = 2, .seq_len = 3, .rank = rank, .world = 3});
    for (int read = 0; read < 100; ++read) {
      auto expected = next_of(strided);
      EXPECT_EQ(next_of(listed), Tokens(expected.begin(), expected.begin() + 4)) << read;
      EXPECT_EQ(next_of(listed), Tokens(expected.begin() + 3, expected.end())) << read;
    }
  }
}

}  // namespace
}  // namespace tg
