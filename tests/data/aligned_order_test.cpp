#include "data/aligned_order.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "data/batch.h"
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
using test::Tokens;

// An order of two rows of four tokens per step.
std::unique_ptr<AlignedOrder> small_order(const TokenSource& source, std::int64_t limit) {
  return std::make_unique<AlignedOrder>(source,
                                        DocumentRows{.tokens = 4, .of_step = 2, .of_round = 2},
                                        AlignedOrder::Pieces{.bos_id = kBos, .limit = limit}, 0, 1);
}

const Tokens kSmall{9, 9, kBos, 11, 12, 13, kBos, 14, kBos, 15, 16, 17, 18, kBos, 19, kBos};

TEST(AlignedOrder, SkipsWhatTheLimitCutsOffAndWhatIsBeforeTheFirstDocument) {
  const Shards shards({kSmall});
  auto order = small_order(*shards.set, /*limit=*/3);
  EXPECT_EQ(order->state(), LoaderState{});
  EXPECT_EQ(next_of(*order), (Tokens{kBos, 11, 12, kBos, 14}));
  EXPECT_EQ(order->state(), (LoaderState{.token_offset = 8, .micro_batches = 1}));
  EXPECT_EQ(next_of(*order), (Tokens{kBos, 15, 16, kBos, 19}));
  EXPECT_EQ(order->state(), (LoaderState{.token_offset = 15}));
  // The last document is not a full round: it is dropped, and the shard starts again.
  EXPECT_EQ(next_of(*order), (Tokens{kBos, 11, 12, kBos, 14}));
  EXPECT_EQ(order->state(), (LoaderState{.token_offset = 16 + 8, .micro_batches = 1}));
}

TEST(AlignedOrder, SkipsWhatTheRowsEndCutsOff) {
  const Shards shards({kSmall});
  auto order = small_order(*shards.set, /*limit=*/0);
  EXPECT_EQ(next_of(*order), (Tokens{kBos, 11, 12, 13, kBos}));
  EXPECT_EQ(next_of(*order), (Tokens{kBos, 15, 16, 17, 18}));
  EXPECT_EQ(order->state(), (LoaderState{.token_offset = 13}));
}

TEST(AlignedOrder, ReadsTheSameRowsOnAnyNumberOfRanks) {
  const Shards shards(documents({300, 405, 221, 277, 401}));
  const Alignment alignment{.length = 10, .limit = 7};
  constexpr std::size_t steps = 12;
  const auto expected = expected_rows(shards.tokens, alignment, 8, 8 * steps);
  std::vector<LoaderState> states;
  for (int world = 1; world <= 8; ++world) {
    SCOPED_TRACE(world);
    auto ranks = aligned_ranks(*shards.set, alignment, world);
    for (std::size_t step = 0; step < steps; ++step) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(8 * step);
      ASSERT_EQ(step_of(ranks), std::vector<Tokens>(begin, begin + 8)) << step;
      if (world == 1) states.push_back(ranks[0]->state());
      for (const auto& rank : ranks) EXPECT_EQ(rank->state(), states[step]) << step;
    }
  }
}

TEST(AlignedOrder, WithARoundOfARowARankDropsLessAtTheEndOfAShard) {
  const Shards shards(documents({300, 405, 221, 277, 401}));
  const Alignment alignment{.length = 10, .limit = 7, .quirks = true};
  for (const int world : {1, 2, 4, 8}) {
    const auto expected =
        expected_rows(shards.tokens, alignment, static_cast<std::size_t>(world), 8 * 12);
    auto ranks = aligned_ranks(*shards.set, alignment, world);
    for (auto begin = expected.begin(); begin != expected.end(); begin += 8)
      ASSERT_EQ(step_of(ranks), std::vector<Tokens>(begin, begin + 8)) << world;
  }
}

TEST(AlignedOrder, ReadsTheRowsThatTheReferenceImplementationReads) {
  const auto reference = nlohmann::json::parse(std::ifstream(TEST_DATA_DIR "/aligned_rows.json"));
  const Shards shards(reference["shards"].get<std::vector<Tokens>>());
  for (const auto& run : reference["runs"]) {
    SCOPED_TRACE(run["ranks"].dump() + " ranks");
    const SegmentRule rule{.bos_id = reference["bos_id"], .limit = reference["limit"]};
    const std::int64_t length = reference["row_tokens"];
    auto ranks = aligned_ranks(
        *shards.set, {.length = length, .limit = rule.limit, .bos_id = rule.bos_id, .quirks = true},
        run["ranks"]);
    std::vector<Tokens> rows;
    for (const auto& expected : run["rows"]) {
      if (rows.empty()) rows = step_of(ranks);
      const auto& row = rows.front();
      const std::span inputs(row.data(), row.size() - 1);
      const nlohmann::json found{Tokens(row.begin(), row.begin() + 3),
                                 std::accumulate(inputs.begin(), inputs.end(), 0), row.back(),
                                 segment_starts(inputs, length, rule).size()};
      ASSERT_EQ(found, expected);
      rows.erase(rows.begin());
    }
  }
}

// Attention's segment rule, which knows only BOS and the limit, therefore finds the pieces.
TEST(AlignedOrder, ARowsPiecesAreItsSegments) {
  const Shards shards(documents({1300, 1405}));
  for (const std::int64_t limit : {0, 2, 7, 200}) {
    auto order = aligned_order(*shards.set, {.length = 10, .limit = limit});
    for (int i = 0; i < 60; ++i) {
      const auto place = *order->advance();
      std::vector<std::int32_t> pieces;
      std::int32_t at = 0;
      for (const auto& span : place.spans) {
        if (at < 10) pieces.push_back(at);  // the last token is only a target
        at += static_cast<std::int32_t>(span.tokens);
      }
      HostBatch batch;
      const BatchLayout layout{.seq_len = 0,
                               .segments = SegmentRule{.bos_id = kBos, .limit = limit}};
      require_buffer(*order, layout, allocate_on_heap, batch);
      fill(*order, place, layout, allocate_on_heap, batch);
      EXPECT_EQ(segment_starts(batch.inputs(), 10, *layout.segments), pieces) << limit;
      EXPECT_EQ(batch.segments, std::ssize(pieces));
    }
  }
}

TEST(AlignedOrder, AShardWithoutARoundIsPassedOverWithOneWarning) {
  auto tokens = documents({300, 90, 300});
  tokens.push_back(Tokens(500, 9));  // no document begins here
  const Shards shards(tokens);
  const Alignment alignment{.length = 10, .limit = 7};
  const auto expected = expected_rows({shards.tokens[0], shards.tokens[2]}, alignment, 8, 8 * 6);
  auto order = aligned_order(*shards.set, alignment);
  testing::internal::CaptureStderr();
  for (const auto& row : expected) ASSERT_EQ(next_of(*order), row);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
  expect_part(said, "fineweb_train_000001.bin is passed over: it has documents (BOS_ID=1) for ");
  expect_part(said, " rows of 10 tokens, fewer than the 8 that ");
  expect_part(said, "fineweb_train_000003.bin is passed over: it has documents (BOS_ID=1) for 0 ");
}

TEST(AlignedOrder, RefusesShardsOfWhichNoneHasARoundInsteadOfLoopingForEver) {
  const Shards shards({Tokens(83, kBos), Tokens(50, kBos), Tokens(90, 9)});
  EXPECT_NO_THROW(aligned_order(*shards.set, {.length = 9}));
  const auto message =
      error_of(ExitCode::bad_data, [&] { aligned_order(*shards.set, {.length = 10}); });
  expect_part(message, "fineweb_train_*.bin: no shard is long enough for LOADER_ORDER=aligned");
  expect_part(message, "(expected documents for 8 rows of 10 tokens, found at most 7)");
  const auto nowhere = [&] { aligned_order(*shards.set, {.length = 9, .bos_id = 50256}); };
  expect_part(error_of(ExitCode::bad_data, nowhere),
              "no document begins (expected the token BOS_ID=50256");
}

TEST(AlignedOrder, RefusesARowOfMorePiecesThanTheReferenceHasRoomFor) {
  Tokens tokens{9};
  for (int i = 0; i < 127; ++i)
    tokens.push_back(kBos);  // 128 tokens with the next document's first
  tokens.insert(tokens.end(), {kBos, 9, 9});
  for (int row = 0; row < 8; ++row) {
    tokens.push_back(kBos);
    tokens.resize(tokens.size() + 127, 9);
  }
  const Shards shards({tokens});
  Alignment alignment{.length = 127, .most_pieces = 127, .quirks = true};
  auto order = aligned_order(*shards.set, alignment);
  for (int again = 0; again < 2; ++again) {
    const auto message = error_of(ExitCode::bad_data, [&] { order->advance(); });
    expect_part(message, "fineweb_train_000000.bin: the row of 127 tokens that begins at token 1");
    expect_part(message, "has 128 documents (expected at most 127 with RECORD_QUIRKS=1");
    EXPECT_EQ(order->state(), LoaderState{});
  }
  alignment.most_pieces = 128;
  EXPECT_NO_THROW(aligned_order(*shards.set, alignment)->advance());
}

}  // namespace
}  // namespace tg
