#include "data/calibration_rows.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/shard.h"
#include "data/synthetic_tokens.h"
#include "data/text_tokens.h"
#include "tests/data/corpus.h"

namespace tg {
namespace {

using test::Corpus;
using test::error_of;
using test::TempDir;
using test::Tokens;

Tokens next_rows(CalibrationRows& rows, std::int64_t count) {
  Tokens tokens(static_cast<std::size_t>(count * rows.row_tokens()));
  rows.read(tokens);
  return tokens;
}

// Shards of which some have no row, ranks with and without their own shards, and several passes.
TEST(CalibrationRows, AreThoseThatNumpyDraws) {
  std::ifstream file(TEST_DATA_DIR "/calibration_rows.json");
  for (const auto& expected : nlohmann::json::parse(file)) {
    SCOPED_TRACE(expected["rank"].dump() + " of " + expected["world"].dump());
    const Corpus corpus(expected["sizes"].get<std::vector<int>>());
    const ShardSet shards(corpus.dir.path(), "train", 65536);
    const int length = expected["row_tokens"];
    CalibrationRows rows(shards, length, expected["rank"], expected["world"]);
    for (const int begin : expected["begins"])  // a token's id is its position
      EXPECT_EQ(next_rows(rows, 1), test::counting(length, begin));
  }
}

TEST(CalibrationRows, AreTheSameOneByOneAndManyAtATime) {
  const Corpus corpus({300, 200});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  CalibrationRows one(shards, 16, 0, 1), many(shards, 16, 0, 1);
  const auto together = next_rows(many, 40);
  Tokens alone;
  for (int i = 0; i < 40; ++i) {
    const auto row = next_rows(one, 1);
    alone.insert(alone.end(), row.begin(), row.end());
  }
  EXPECT_EQ(together, alone);
}

TEST(CalibrationRows, SayWhenTheyRepeat) {
  const Corpus corpus({100});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  CalibrationRows rows(shards, 16, 0, 1);
  next_rows(rows, 5);
  EXPECT_EQ(rows.rows_until_repeated(), 0);
  next_rows(rows, 20);
  EXPECT_GE(rows.rows_until_repeated(), 5);
  EXPECT_LE(rows.rows_until_repeated(), 6);
}

// Text tokens are produced while they are waited for.
TEST(CalibrationRows, OfTextAreThoseOfItsTokensInAShard) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("Document {} grants you a licence.\n\n", i);
  test::write_file(dir / "a.txt", text);
  const auto train =
      TextCorpus({dir / "a.txt"}, Tokenizer(TEST_DATA_DIR "/data_bpe.model", 512), 1).train();
  CalibrationRows rows(*train, 32, 1, 2);
  const auto of_text = next_rows(rows, 20);

  Tokens tokens(static_cast<std::size_t>(train->tokens(0)));
  train->read_at(0, tokens);
  test::write_file(dir / "fineweb_train_000000.bin", test::shard_bytes(tokens));
  const ShardSet shard(dir.path(), "train", 512);
  CalibrationRows of_shard(shard, 32, 1, 2);
  EXPECT_EQ(of_text, next_rows(of_shard, 20));
}

// Ten billion tokens, the first 10⁸ of which are used.
TEST(CalibrationRows, OfSyntheticTokensDifferByRank) {
  const SyntheticTokens tokens("train", 1024, 5);
  CalibrationRows rows(tokens, 1 << 14, 0, 2), of_rank_1(tokens, 1 << 14, 1, 2);
  const auto first = next_rows(rows, 1);
  EXPECT_NE(next_rows(of_rank_1, 1), first);
  EXPECT_NE(next_rows(rows, 1), first);
}

TEST(CalibrationRows, RefuseARankWhoseShardsAreTooShort) {
  const Corpus corpus({100, 16});
  const ShardSet shards(corpus.dir.path(), "train", 65536);
  CalibrationRows(shards, 16, 0, 2);
  EXPECT_EQ(error_of(ExitCode::bad_data, [&] { CalibrationRows(shards, 16, 1, 2); }),
            shards.pattern() +
                ": no shard of rank 1 is long enough to calibrate on (expected 17 tokens for a row "
                "of 16, found at most 16); lower TRAIN_SEQ_LEN or merge small shards");
}

}  // namespace
}  // namespace tg
