#include "data/text_bytes.h"

#include <filesystem>
#include <numeric>

#include "data/batch.h"
#include "data/splits.h"
#include "tests/data/shards.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::shard_bytes;
using test::TempDir;
using test::write_file;
using Ids = std::vector<std::uint16_t>;

const std::string fixtures = std::string(TEST_DATA_DIR) + "/";

// Two validation shards and their sidecar.
class SidecarTest : public testing::Test {
 protected:
  SidecarTest() {
    data.data_path = dir.path();
    data.tokenizer_path = fixtures + "data_bpe.model";
    write_file(dir / "fineweb_train_000000.bin", shard_bytes(Ids{1, 300}));
    write_file(dir / "fineweb_train_bytes_000000.bin", shard_bytes(Ids{0, 5}));
    write_file(dir / "fineweb_val_000000.bin", shard_bytes(Ids{1, 300, 301}));
    write_file(dir / "fineweb_val_000001.bin", shard_bytes(Ids{302, 1}));
    write_file(sidecar(0), shard_bytes(Ids{0, 7, 50'000}));
    write_file(sidecar(1), shard_bytes(Ids{9, 0}));
  }
  std::string sidecar(int shard) const {
    return dir / fmt::format("fineweb_val_bytes_00000{}.bin", shard);
  }
  TokenSplits open(ByteCountSource source = ByteCountSource::automatic) {
    data.byte_counts = source;
    return open_splits(data, 512);
  }
  std::string error(ExitCode code) {
    return error_of(code, [&] { open(); });
  }

  TempDir dir;
  DataConfig data;
};

TEST_F(SidecarTest, IsFoundBesideTheShardsAndIsNoShardItself) {
  const auto splits = open();
  EXPECT_EQ(splits.val->tokens_up_to(100), 5);
  EXPECT_EQ(splits.train->tokens_up_to(100), 2);
  const auto& bytes = *splits.vocabulary.bytes;
  ASSERT_NE(bytes.sidecar, nullptr);
  EXPECT_EQ(sidecar_bytes(*bytes.sidecar, 1, 3), 7 + 50'000 + 9);
  EXPECT_FALSE(bytes.by_pairs());
  EXPECT_EQ(open(ByteCountSource::tokenizer).vocabulary.bytes->sidecar, nullptr);
  EXPECT_NE(open(ByteCountSource::sidecar).vocabulary.bytes->sidecar, nullptr);
  data.tokenizer_path = "";
  EXPECT_NE(open().vocabulary.bytes->sidecar, nullptr) << "needs no tokenizer";
}

TEST_F(SidecarTest, IsMissedOnlyWhereItIsWanted) {
  std::filesystem::remove(sidecar(0));
  std::filesystem::remove(sidecar(1));
  EXPECT_EQ(open().vocabulary.bytes->sidecar, nullptr);
  expect_part(error_of(ExitCode::missing_input, [&] { open(ByteCountSource::sidecar); }),
              "has no files fineweb_val_bytes_*.bin");
  data.data_path = "synthetic:zipf";
  expect_part(error_of(ExitCode::config, [&] { open(ByteCountSource::sidecar); }),
              "BYTE_COUNTS=sidecar and DATA_PATH=synthetic:zipf, which has none");
}

TEST_F(SidecarTest, HasAFileOfEachShardsNameAndLength) {
  write_file(sidecar(1), shard_bytes(Ids{9, 0, 3}));
  expect_part(error(ExitCode::bad_data), sidecar(1) + " is not the byte sidecar of " +
                                             (dir / "fineweb_val_000001.bin") +
                                             " (expected 2 entries, one a token, found 3)");
  std::filesystem::remove(sidecar(1));
  expect_part(error(ExitCode::bad_data),
              "has no byte sidecar of its name (expected " + sidecar(1) + ", found no more)");
  write_file(sidecar(1), shard_bytes(Ids{9, 0}));
  write_file(sidecar(2), shard_bytes(Ids{9, 0}));
  expect_part(error(ExitCode::bad_data), "the byte sidecar " + sidecar(2) +
                                             " has no validation shard (expected " +
                                             (dir / "fineweb_val_000002.bin"));
}

TEST_F(SidecarTest, HasNoBytesForBos) {
  const auto splits = open();
  std::vector<TokenId> tokens(5);
  splits.val->read_at(0, tokens);
  const auto& bytes = *splits.vocabulary.bytes;
  check_sidecar(bytes, 0, tokens);
  write_file(sidecar(1), shard_bytes(Ids{9, 4}));
  const auto other = *open().vocabulary.bytes;
  expect_part(
      error_of(ExitCode::bad_data, [&] { check_sidecar(other, 2, std::span(tokens).subspan(2)); }),
      "expected 0 bytes for BOS, token 4 of the split, found 4");
}

TEST_F(SidecarTest, CountsTheTargetsOfABatch) {
  const auto splits = open();
  ListedOrder order(*splits.val, {{0, 3}, {2, 3}}, 2);
  HostBatch batch;
  const BatchLayout layout{.seq_len = 2, .bytes = &*splits.vocabulary.bytes};
  require_buffer(order, layout, allocate_on_heap, batch);
  fill(order, order.advance(), layout, allocate_on_heap, batch);
  EXPECT_EQ(batch.text_bytes, 7 + 50'000);
  fill(order, order.advance(), layout, allocate_on_heap, batch);
  EXPECT_EQ(batch.text_bytes, 9);
}

// Returns one place that consists of several spans.
class SpansOrder final : public TokenOrder {
 public:
  SpansOrder(const TokenSource& source, Place place)
      : TokenOrder(source), place_(std::move(place)) {}
  std::optional<Place> advance() override { return place_; }
  LoaderState state() const override { return {}; }
  void restore(const LoaderState&) override {}
  std::int64_t span_tokens() const override { return place_.tokens(); }

 private:
  Place place_;
};

std::int64_t target_bytes(const TokenSource& source, const TextBytes& bytes, const Place& place) {
  SpansOrder order(source, place);
  HostBatch batch;
  const BatchLayout layout{.seq_len = 0, .bytes = &bytes};
  require_buffer(order, layout, allocate_on_heap, batch);
  fill(order, order.advance(), layout, allocate_on_heap, batch);
  return batch.text_bytes;
}

// A span's last token is followed by the next span's first.
TEST_F(SidecarTest, CountsTheTargetsOfSeveralSpans) {
  const auto splits = open();
  std::vector<std::uint16_t> counts(5);
  splits.vocabulary.bytes->sidecar->read_at(0, counts);
  for (const auto& [spans, targets] :
       {std::pair{std::vector<TokenSpan>{{0, 2}, {3, 2}}, std::vector{1, 3, 4}},
        std::pair{std::vector<TokenSpan>{{2, 1}, {0, 1}, {3, 1}}, std::vector{0, 3}}}) {
    std::int64_t expected = 0;
    for (const int target : targets) expected += counts[static_cast<std::size_t>(target)];
    EXPECT_EQ(target_bytes(*splits.val, *splits.vocabulary.bytes, {spans}), expected);
  }
}

TEST(TokenizerBytes, OfSeveralSpansAreThoseOfTheirTokensBehindEachOther) {
  const Tokenizer tokenizer(fixtures + "data_bpe.model", 512);
  std::vector<TokenId> ids{1};
  tokenizer.encode("the licence grants the work", ids);
  const auto end = std::ssize(ids);
  ids.push_back(1);
  tokenizer.encode("grants the licence", ids);
  const TempDir dir;
  write_file(dir / "fineweb_val_000000.bin", shard_bytes(test::narrow(ids)));
  const ShardSet shards(dir.path(), "val", 512);
  const TextBytes bytes{.table = make_byte_table(tokenizer, 512)};
  const Place place{{{0, 3}, {end, std::ssize(ids) - end}}};
  std::vector<TokenId> joined(ids.begin(), ids.begin() + 3);
  joined.insert(joined.end(), ids.begin() + end, ids.end());
  EXPECT_EQ(target_bytes(shards, bytes, place), count_bytes(*bytes.table, joined));
}

// In a run of U+E004, the first one determines which of them are escapes.
TEST(CaseOpsBytes, DoNotDependOnWhereABatchBegins) {
  const Tokenizer tokenizer(fixtures + "data_caseops.model", 0, /*caseops=*/true);
  std::string text = "A";
  for (int i = 0; i < 21; ++i) text += "\ue004";
  text += "\ue002Bc";
  std::vector<TokenId> ids{1};
  tokenizer.encode(text, ids);
  const TempDir dir;
  write_file(dir / "fineweb_val_000000.bin", shard_bytes(test::narrow(ids)));
  const ShardSet shards(dir.path(), "val", 512);
  const TextBytes bytes{.table = make_byte_table(tokenizer, 0)};
  std::vector<TokenSpan> places;
  for (std::int64_t begin = 0; begin + 1 < std::ssize(ids); ++begin) places.push_back({begin, 2});
  ListedOrder order(shards, places, std::ssize(places));
  HostBatch batch;
  const BatchLayout layout{.seq_len = 1, .bytes = &bytes};
  require_buffer(order, layout, allocate_on_heap, batch);
  std::int64_t counted = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    fill(order, order.advance(), layout, allocate_on_heap, batch);
    counted += batch.text_bytes;
  }
  EXPECT_EQ(counted, std::ssize(text));
}

}  // namespace
}  // namespace tg
