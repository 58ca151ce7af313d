#include "data/token_order.h"

#include <random>

#include "data/batch.h"
#include "data/shard.h"
#include "tests/data/corpus.h"

namespace tg {
namespace {

using test::Corpus;
using test::counting;
using test::error_of;
using test::expect_part;
using test::listed;
using test::narrow;
using test::next_of;
using test::stream_order;
using test::strided_order;
using test::Tokens;

// As in the reference implementation's loader: a step is the next M * (L + 1) tokens.
std::vector<Tokens> stream_micro_batches(const Tokens& all, std::size_t span, std::size_t count) {
  std::vector<Tokens> batches;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Tokens& batch = batches.emplace_back();
    for (std::size_t k = 0; k < span; ++k) batch.push_back(all[at++ % all.size()]);
  }
  return batches;
}

TEST(StreamOrder, ReadsTheSameMicroBatchesOnAnyNumberOfRanks) {
  const Corpus corpus({40, 7, 101, 23});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  constexpr int micro_batches = 8, length = 9, steps = 6;
  const auto expected = stream_micro_batches(corpus.all, length + 1, micro_batches * steps);
  for (int world = 1; world <= 8; ++world) {
    std::vector<std::unique_ptr<StreamOrder>> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(std::make_unique<StreamOrder>(stream_order(
          shards,
          {.length = length, .micro_batches = micro_batches, .rank = rank, .world = world})));
    }
    std::size_t seen = 0;
    for (int step = 0; step < steps; ++step) {
      for (int round = 0; round * world < micro_batches; ++round) {
        for (int rank = 0; rank < world; ++rank) {
          const Tokens batch = next_of(*ranks[static_cast<std::size_t>(rank)]);
          if (round * world + rank >= micro_batches) {
            EXPECT_TRUE(batch.empty());
          } else {
            ASSERT_EQ(batch, expected[seen++]) << "world " << world;
          }
        }
      }
      for (const auto& rank : ranks) {
        EXPECT_EQ(rank->state(), (LoaderState{.token_offset = (step + 1) * 80}));
      }
    }
    EXPECT_EQ(seen, expected.size());
  }
}

TEST(StreamOrder, ResumesBetweenStepsOnAnotherNumberOfRanksAndBatch) {
  const Corpus corpus({200});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  auto before = stream_order(shards, {.length = 9, .micro_batches = 8});
  for (int i = 0; i < 8; ++i) next_of(before);
  auto after = stream_order(shards, {.length = 4, .micro_batches = 12, .rank = 5, .world = 12});
  after.restore(before.state());
  const auto begin = corpus.all.begin() + 80 + 5 * 5;
  EXPECT_EQ(next_of(after), Tokens(begin, begin + 5));
  next_of(before);
  const auto message = error_of(ExitCode::config, [&] {
    stream_order(shards, {.length = 9, .micro_batches = 8, .world = 2}).restore(before.state());
  });
  expect_part(message, "token_offset=90 micro_batches=1");
}

TEST(StreamOrder, OtherSizesGoOnBehindTheLastStep) {
  const Corpus corpus({40, 7, 101, 23});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  auto order = stream_order(shards, {.length = 11, .micro_batches = 4});
  std::size_t at = 0;
  for (const std::size_t length : {11, 5, 9, 11, 1}) {
    order.reshape({.tokens = static_cast<std::int64_t>(length)});
    EXPECT_EQ(order.span_tokens(), 12);  // the required buffer size
    for (int i = 0; i < 2 * 4; ++i) {
      Tokens expected;
      for (std::size_t k = 0; k <= length; ++k) {
        expected.push_back(corpus.all[at++ % corpus.all.size()]);
      }
      ASSERT_EQ(next_of(order), expected) << length;
    }
  }
}

// The reference implementation's loader for the GPT-124M speedrun, line for line.
struct PythonStrided {
  const std::vector<Tokens>& shards;
  std::size_t stride, rank, world;
  std::size_t shard = 0, position = rank * stride;
  Tokens next() {
    const auto begin = shards[shard].begin() + static_cast<std::ptrdiff_t>(position);
    Tokens batch(begin, begin + static_cast<std::ptrdiff_t>(stride) + 1);
    position += stride * world;
    if (position + stride * world + 1 > shards[shard].size()) {
      shard = (shard + 1) % shards.size();
      position = rank * stride;
    }
    return batch;
  }
};

TEST(StridedOrder, ReadsWhatTheReferenceReadsOnEveryRank) {
  const Corpus corpus({49, 60, 200, 97});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  for (int world = 1; world <= 8; ++world) {
    for (int rank = 0; rank < world; ++rank) {
      auto order =
          strided_order(shards, {.sequences = 2, .seq_len = 3, .rank = rank, .world = world});
      PythonStrided python{.shards = corpus.shards,
                           .stride = 6,
                           .rank = static_cast<std::size_t>(rank),
                           .world = static_cast<std::size_t>(world)};
      for (int i = 0; i < 200; ++i) {
        ASSERT_EQ(next_of(order), python.next()) << world << " " << rank << " " << i;
      }
    }
  }
}

TEST(StridedOrder, RepeatsItsFirstMicroBatchOnceWhereAsked) {
  const Corpus corpus({50, 60});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  auto plain = strided_order(shards, {.sequences = 2, .seq_len = 3, .rank = 1, .world = 2});
  auto repeating = strided_order(
      shards, {.sequences = 2, .seq_len = 3, .rank = 1, .world = 2, .repeat_first = true});
  const Tokens first = next_of(plain);
  EXPECT_EQ(next_of(repeating), first);
  EXPECT_EQ(next_of(repeating), first);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(next_of(repeating), next_of(plain));
  }
}

TEST(StridedOrder, RefusesAShardTooSmallForOneRoundInsteadOfLoopingForEver) {
  const Corpus corpus({60, 24});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  const auto open = [&](int world) {
    strided_order(shards, {.sequences = 2, .seq_len = 3, .world = world});
  };
  EXPECT_NO_THROW(open(3));
  const auto message = error_of(ExitCode::bad_data, [&] { open(4); });
  expect_part(message, "fineweb_train_000001.bin is too small");
  expect_part(message, "expected at least 25 tokens, found 24");
}

TEST(TokenOrder, ResumesFromARandomPosition) {
  const Corpus corpus({49, 60, 77});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int world = 1 + static_cast<int>(random() % 8), rank = static_cast<int>(random()) % world;
    const int mine = rank < 0 ? rank + world : rank;
    const int kind = static_cast<int>(random() % 3);
    const auto make = [&]() -> std::unique_ptr<TokenOrder> {
      if (kind == 0)
        return std::make_unique<StreamOrder>(
            stream_order(shards, {.length = 11, .micro_batches = 8, .rank = mine, .world = world}));
      return std::make_unique<StridedOrder>(strided_order(
          shards,
          {.sequences = 3, .seq_len = 2, .rank = mine, .world = world, .repeat_first = kind == 2}));
    };
    const auto whole = make(), resumed = make();
    const auto skipped = random() % 40;
    for (unsigned i = 0; i < skipped; ++i) next_of(*whole);
    for (unsigned i = 0; i < random() % 40; ++i) next_of(*resumed);
    resumed->restore(whole->state());
    for (int i = 0; i < 30; ++i) {
      ASSERT_EQ(resumed->state(), whole->state());
      ASSERT_EQ(next_of(*resumed), next_of(*whole)) << kind << " after " << skipped;
    }
  }
}

TEST(StridedOrder, AnyRankResumesFromAnotherRanksState) {
  const Corpus corpus({49, 60, 77});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  const auto order = [&](int rank) {
    return strided_order(
        shards, {.sequences = 2, .seq_len = 3, .rank = rank, .world = 3, .repeat_first = true});
  };
  for (int rounds = 0; rounds < 60; ++rounds) {
    auto first = order(0), whole = order(2), resumed = order(2);
    for (int i = 0; i < rounds; ++i) next_of(first), next_of(whole);
    resumed.restore(first.state());
    ASSERT_EQ(next_of(resumed), next_of(whole)) << rounds;
    ASSERT_EQ(next_of(resumed), next_of(whole)) << rounds;
  }
}

TEST(StridedOrder, OtherSizesGoOnWhereRankZeroIsWithoutReadingATokenTwiceOrLeavingOneOut) {
  const Corpus corpus({500});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  for (const int world : {1, 2, 3}) {
    std::vector<StridedOrder> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(strided_order(
          shards,
          {.sequences = 8, .seq_len = 1, .rank = rank, .world = world, .repeat_first = true}));
    }
    std::size_t at = 0;
    for (const std::size_t length : {8, 4, 6}) {
      for (int round = 0; round < 5; ++round) {
        std::vector<Tokens> found;
        for (auto& rank : ranks) {
          if (round == 0 && length != 8)
            rank.reshape({.tokens = static_cast<std::int64_t>(length)});
          found.push_back(next_of(rank));
        }
        for (const auto& batch : found) {
          const auto begin = corpus.all.begin() + static_cast<std::ptrdiff_t>(at);
          ASSERT_EQ(batch, Tokens(begin, begin + static_cast<std::ptrdiff_t>(length) + 1))
              << length << " on " << world << " ranks, round " << round;
          at += length;
        }
        // The first round is repeated at the beginning only.
        if (length == 8 && round == 0) at = 0;
      }
    }
  }
}

TEST(TokenOrder, ResumesFromARandomPositionAfterItsSizeHasChanged) {
  const Corpus corpus({49, 60, 77});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int world = 1 + static_cast<int>(random() % 4);
    const int rank = static_cast<int>(random() % static_cast<unsigned>(world));
    const bool strided = trial % 2 == 1;
    const auto make = [&]() -> std::unique_ptr<TokenOrder> {
      if (!strided)
        return std::make_unique<StreamOrder>(
            stream_order(shards, {.length = 9, .micro_batches = 4, .rank = rank, .world = world}));
      return std::make_unique<StridedOrder>(strided_order(
          shards,
          {.sequences = 3, .seq_len = 3, .rank = rank, .world = world, .repeat_first = true}));
    };
    const auto step = [&](TokenOrder& order) {
      std::vector<Tokens> batches;
      for (int round = 0; round < 4; round += world) batches.push_back(next_of(order));
      return batches;
    };
    const auto whole = make(), resumed = make();
    std::int64_t length = 9;
    for (int change = 0; change < 3; ++change) {
      length = 1 + static_cast<std::int64_t>(random() % 9);
      whole->reshape({.tokens = length});
      for (unsigned i = 0; i < random() % 12; ++i) step(*whole);
    }
    for (unsigned i = 0; i < random() % 12; ++i) step(*resumed);
    resumed->reshape({.tokens = length});
    resumed->restore(whole->state());
    for (int i = 0; i < 12; ++i) {
      ASSERT_EQ(resumed->state(), whole->state());
      ASSERT_EQ(step(*resumed), step(*whole)) << trial;
    }
  }
}

TEST(StridedOrder, RefusesNegativeRounds) {
  const Corpus corpus({50, 60});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  auto order = strided_order(shards, {.sequences = 2, .seq_len = 3});
  error_of(ExitCode::config, [&] { order.restore({.micro_batches = -1}); });
}

TEST(OrderedSource, CutsInputsAndTargetsFromOneBufferAndKeepsIt) {
  const Corpus corpus({100});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  int allocated = 0;
  OrderedSource source(std::make_unique<StreamOrder>(stream_order(
                           shards, {.length = 6, .micro_batches = 3, .rank = 1, .world = 2})),
                       {.seq_len = 3}, [&](std::int64_t bytes) {
                         ++allocated;
                         return allocate_on_heap(bytes);
                       });
  HostBatch batch;
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(batch.tokens, 7);
  EXPECT_EQ(batch.seq_len, 3);
  EXPECT_EQ(narrow(listed(batch.inputs())), counting(6, 7));
  EXPECT_EQ(narrow(listed(batch.targets())), counting(6, 8));
  EXPECT_EQ(batch.after, (LoaderState{.token_offset = 14, .micro_batches = 2}));
  EXPECT_FALSE(source.next(batch));  // three micro-batches on two ranks: none in the second round
  EXPECT_TRUE(listed(batch.inputs()).empty());
  EXPECT_EQ(batch.after, (LoaderState{.token_offset = 21}));
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(listed(batch.inputs())[0], 28);
  EXPECT_EQ(allocated, 1);
  source.restore({});
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(listed(batch.inputs())[0], 7);
}

TEST(ListedOrder, CyclesThroughItsPlacesForCountRounds) {
  const Corpus corpus({30, 20});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  ListedOrder order(
      shards, {{.begin = 0, .tokens = 7}, {.begin = 25, .tokens = 13}, {.begin = 3, .tokens = 4}},
      /*count=*/3);
  EXPECT_EQ(order.span_tokens(), 13);
  EXPECT_EQ(next_of(order), counting(7, 0));
  EXPECT_EQ(next_of(order), counting(13, 25));
  const auto after_two = order.state();
  EXPECT_EQ(next_of(order), counting(4, 3));
  EXPECT_EQ(next_of(order), Tokens());
  order.restore(after_two);
  EXPECT_EQ(next_of(order), counting(4, 3));

  ListedOrder again(shards, {{.begin = 0, .tokens = 7}, {.begin = 3, .tokens = 4}}, /*count=*/5);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(next_of(again), counting(7, 0));
    EXPECT_EQ(next_of(again), counting(4, 3));
  }
  EXPECT_EQ(next_of(again), counting(7, 0));
  EXPECT_EQ(next_of(again), Tokens());
}

}  // namespace
}  // namespace tg
