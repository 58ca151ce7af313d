#include "data/token_order.h"

#include <random>

#include "data/batch.h"
#include "data/shard.h"
#include "data/validation.h"
#include "tests/data/files.h"

namespace tg {
namespace {

using test::counting;
using test::error_of;
using test::expect_part;
using test::shard_bytes;
using test::TempDir;
using test::write_file;
using Tokens = std::vector<std::uint16_t>;

// Shards of unequal sizes whose tokens are all different, and the same tokens in memory.
struct Corpus {
  explicit Corpus(const std::vector<int>& sizes, const std::string& split = "train") {
    int first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      shards.push_back(counting(sizes[i], first));
      first += sizes[i];
      write_file(dir / fmt::format("fineweb_{}_{:06}.bin", split, i), shard_bytes(shards.back()));
      all.insert(all.end(), shards.back().begin(), shards.back().end());
    }
  }
  TempDir dir;
  std::vector<Tokens> shards;
  Tokens all;
};

Tokens next_of(TokenOrder& order) {
  const auto place = order.advance();
  if (!place) return {};
  Tokens out(static_cast<std::size_t>(place->tokens));
  order.read(place->begin, out);
  return out;
}

// What the Python loader does: every step takes M * (L + 1) tokens, one after the other.
std::vector<Tokens> stream_micro_batches(const Tokens& all, std::size_t span, std::size_t number) {
  std::vector<Tokens> batches;
  std::size_t at = 0;
  for (std::size_t i = 0; i < number; ++i) {
    Tokens& batch = batches.emplace_back();
    for (std::size_t k = 0; k < span; ++k) batch.push_back(all[at++ % all.size()]);
  }
  return batches;
}

TEST(StreamOrder, DealsTheSameMicroBatchesToAnyNumberOfRanks) {
  const Corpus corpus({40, 7, 101, 23});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  constexpr int micro_batches = 8, length = 9, steps = 6;
  const auto expected = stream_micro_batches(corpus.all, length + 1, micro_batches * steps);
  for (int world = 1; world <= 8; ++world) {
    std::vector<std::unique_ptr<StreamOrder>> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(std::make_unique<StreamOrder>(shards, length, micro_batches, rank, world));
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
  StreamOrder before(shards, 9, 8, 0, 1);
  for (int i = 0; i < 8; ++i) next_of(before);
  StreamOrder after(shards, 4, 12, 5, 12);
  after.restore(before.state());
  const auto begin = corpus.all.begin() + 80 + 5 * 5;
  EXPECT_EQ(next_of(after), Tokens(begin, begin + 5));
  next_of(before);
  const auto message =
      error_of(ExitCode::config, [&] { StreamOrder(shards, 9, 8, 0, 2).restore(before.state()); });
  expect_part(message, "token_offset=90 micro_batches=1");
}

// The loader of the GPT-124M speedrun, line for line.
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

TEST(StridedOrder, ReadsWhatThePythonLoaderReadsOnEveryRank) {
  const Corpus corpus({49, 60, 200, 97});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  for (int world = 1; world <= 8; ++world) {
    for (int rank = 0; rank < world; ++rank) {
      StridedOrder order(shards, 2, 3, rank, world, false);
      PythonStrided python{corpus.shards, 6, static_cast<std::size_t>(rank),
                           static_cast<std::size_t>(world)};
      for (int i = 0; i < 200; ++i) {
        ASSERT_EQ(order.state().shard, static_cast<std::int64_t>(python.shard));
        ASSERT_EQ(order.state().offset, static_cast<std::int64_t>(python.position));
        ASSERT_EQ(order.state(), order.state_after(i)) << world << " " << rank << " " << i;
        ASSERT_EQ(next_of(order), python.next()) << world << " " << rank << " " << i;
      }
    }
  }
}

TEST(StridedOrder, RepeatsItsFirstMicroBatchOnceWhereAsked) {
  const Corpus corpus({50, 60});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  StridedOrder plain(shards, 2, 3, 1, 2, false), repeating(shards, 2, 3, 1, 2, true);
  const Tokens first = next_of(plain);
  EXPECT_EQ(next_of(repeating), first);
  EXPECT_EQ(next_of(repeating), first);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(next_of(repeating), next_of(plain));
    EXPECT_EQ(repeating.state(), repeating.state_after(i + 3));
  }
}

TEST(StridedOrder, RefusesAShardTooSmallForOneRoundInsteadOfLoopingForEver) {
  const Corpus corpus({60, 24});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  EXPECT_NO_THROW(StridedOrder(shards, 2, 3, 0, 3, false));
  const auto message =
      error_of(ExitCode::bad_data, [&] { StridedOrder(shards, 2, 3, 0, 4, false); });
  expect_part(message, "fineweb_train_000001.bin is too small");
  expect_part(message, "expected at least 25 tokens, found 24");
}

TEST(TokenOrder, ResumesFromARandomPositionAsIfItHadNotStopped) {
  const Corpus corpus({49, 60, 77});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const int world = 1 + static_cast<int>(random() % 8), rank = static_cast<int>(random()) % world;
    const int mine = rank < 0 ? rank + world : rank;
    const int kind = static_cast<int>(random() % 3);
    const auto make = [&]() -> std::unique_ptr<TokenOrder> {
      if (kind == 0) return std::make_unique<StreamOrder>(shards, 11, 8, mine, world);
      return std::make_unique<StridedOrder>(shards, 3, 2, mine, world, kind == 2);
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

TEST(StridedOrder, RefusesAStateOutsideItsShards) {
  const Corpus corpus({50, 60});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  StridedOrder order(shards, 2, 3, 0, 1, false);
  for (const LoaderState& state : {LoaderState{.shard = 2}, LoaderState{.shard = -1},
                                   LoaderState{.offset = 44}, LoaderState{.offset = -6}}) {
    error_of(ExitCode::config, [&] { order.restore(state); });
  }
}

TEST(OrderedSource, CutsInputsAndTargetsFromOneBufferAndKeepsIt) {
  const Corpus corpus({100});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  int allocated = 0;
  OrderedSource source(std::make_unique<StreamOrder>(shards, 6, 3, 1, 2), {.seq_len = 3},
                       [&](std::int64_t tokens) {
                         ++allocated;
                         return allocate_on_heap(tokens);
                       });
  HostBatch batch;
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(batch.tokens, 7);
  EXPECT_EQ(batch.seq_len, 3);
  EXPECT_EQ(Tokens(batch.inputs().begin(), batch.inputs().end()), counting(6, 7));
  EXPECT_EQ(Tokens(batch.targets().begin(), batch.targets().end()), counting(6, 8));
  EXPECT_EQ(batch.after, (LoaderState{.token_offset = 14, .micro_batches = 2}));
  EXPECT_FALSE(source.next(batch));  // three micro-batches on two ranks: none in the second round
  EXPECT_TRUE(batch.inputs().empty());
  EXPECT_EQ(batch.after, (LoaderState{.token_offset = 21}));
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(batch.inputs()[0], 28);
  EXPECT_EQ(allocated, 1);
  source.restore({});
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(batch.inputs()[0], 7);
}

TEST(ListedOrder, HandsOutItsPlacesInTurnAndThenNothing) {
  const Corpus corpus({30, 20});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  ListedOrder order(shards, {{0, 7}, {25, 13}, {3, 4}}, 3);
  EXPECT_EQ(order.span_tokens(), 13);
  EXPECT_EQ(next_of(order), counting(7, 0));
  EXPECT_EQ(next_of(order), counting(13, 25));
  const auto after_two = order.state();
  EXPECT_EQ(next_of(order), counting(4, 3));
  EXPECT_EQ(next_of(order), Tokens());
  order.restore(after_two);
  EXPECT_EQ(next_of(order), counting(4, 3));

  ListedOrder again(shards, {{0, 7}, {3, 4}}, 5);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(next_of(again), counting(7, 0));
    EXPECT_EQ(next_of(again), counting(4, 3));
  }
  EXPECT_EQ(next_of(again), counting(7, 0));
  EXPECT_EQ(next_of(again), Tokens());
}

TEST(ValidationPlan, KeepsWholeSequencesOfTheLongerLength) {
  const Corpus corpus({40, 61}, "val");
  const ShardSet shards(corpus.dir.path(), "val", 65536);
  const auto predictions = [&](std::int64_t train, std::int64_t eval, std::int64_t limit) {
    return trimmed_predictions(shards, train, eval, limit);
  };
  EXPECT_EQ(predictions(10, 0, 0), 100);
  EXPECT_EQ(predictions(8, 16, 0), 96);
  EXPECT_EQ(predictions(16, 8, 0), 96);
  EXPECT_EQ(predictions(10, 10, 59), 50);
  EXPECT_EQ(predictions(100, 0, 0), 100);
  const auto message = error_of(ExitCode::bad_data, [&] { predictions(16, 101, 0); });
  expect_part(message, "expected at least 102 tokens, found 101");
  error_of(ExitCode::bad_data, [&] { predictions(16, 16, 15); });
}

// Every sequence once, whatever the number of ranks, uneven shares included.
TEST(ValidationPlan, DealsEverySequenceToOneRank) {
  for (int world = 1; world <= 8; ++world) {
    std::int64_t next = 0;
    for (int rank = 0; rank < world; ++rank) {
      for (const Place& place : plan_stream(96, 8, 2, rank, world).places) {
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
  const auto plan = plan_strided(shards, 5, 4, 8, 3, 0, 1);  // reads of 4 sequences in 3 and 1
  EXPECT_EQ(plan.places_in_batch, 2);
  EXPECT_EQ(plan.count, 10);
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (const Place& place : plan.places) places.emplace_back(place.begin, place.tokens);
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
    const auto plan = plan_strided(shards, std::int64_t{1} << 40, 2, 3, 1, rank, 3);
    EXPECT_EQ(plan.count, std::int64_t{1} << 41);
    EXPECT_LE(plan.places.size(), 2u * 186 / 6);
    ListedOrder listed(shards, plan.places, plan.count);
    StridedOrder strided(shards, 2, 3, rank, 3, false);
    for (int read = 0; read < 100; ++read) {
      auto expected = next_of(strided);
      EXPECT_EQ(next_of(listed), Tokens(expected.begin(), expected.begin() + 4)) << read;
      EXPECT_EQ(next_of(listed), Tokens(expected.begin() + 3, expected.end())) << read;
    }
  }
}

}  // namespace
}  // namespace tg
