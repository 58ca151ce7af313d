#include "data/baselines.h"

#include <fmt/format.h>

#include <cmath>

#include "data/byte_count.h"
#include "tests/data/shards.h"

namespace tg {
namespace {

using test::TempDir;
using test::write_file;

TEST(Baselines, AreTheEntropiesOfTheirCounts) {
  const TempDir dir;
  const Tokenizer tokenizer(std::string(TEST_DATA_DIR) + "/data_bpe.model");
  const ByteTable table = make_byte_table(tokenizer, 0);
  const auto find = [&](const std::string& piece) {
    int id = 0;
    while (tokenizer.piece(id) != piece) ++id;
    return static_cast<std::uint16_t>(id);
  };
  const std::uint16_t space = find("\u2581"), letter = find("t");
  ASSERT_EQ(table.leading_space[space], 1);
  ASSERT_EQ(table.base_bytes[letter], 1);
  std::vector<std::uint16_t> train, val;
  for (int i = 0; i < 8; ++i) train.insert(train.end(), {letter, space});
  val = {letter, space, letter, letter};
  write_file(dir / "fineweb_train_000000.bin", test::shard_bytes(train));
  write_file(dir / "fineweb_val_000000.bin", test::shard_bytes(val));
  const Baselines scores = text_baselines(ShardSet(dir.path(), "train", 512),
                                          ShardSet(dir.path(), "val", 512), tokenizer);
  // 15 predictions: 8 spaces, 7 letters. Scored: space, letter, letter: 3 bytes.
  const double p_space = 9.0 / (15 + 512), p_letter = 8.0 / (15 + 512);
  EXPECT_NEAR(scores.token_unigram, -(std::log2(p_space) + 2 * std::log2(p_letter)) / 3, 1e-12);
  EXPECT_NEAR(scores.byte_unigram.value(), -(std::log2(9.0 / 271) + 2 * std::log2(8.0 / 271)) / 3,
              1e-12);
  // letter -> space 8 of 8 times, space -> letter 7 of 7, letter -> letter never.
  EXPECT_NEAR(scores.token_bigram,
              -(std::log2((8 + 10 * p_space) / 18) + std::log2((7 + 10 * p_letter) / 17) +
                std::log2(10 * p_letter / 18)) /
                  3,
              1e-12);
}

TEST(Baselines, AreRefusedWhereUnknownPiecesMayHideSpaces) {
  const TempDir dir;
  std::string model = test::read_file(std::string(TEST_DATA_DIR) + "/data_odd.model");
  const std::string space = "\x0a\x03\xe2\x96\x81", other = "\x0a\x03zqy";
  write_file(dir / "m", model.replace(model.find(space), space.size(), other));
  const Tokenizer tokenizer(dir / "m");
  const auto unknown = static_cast<std::uint16_t>(tokenizer.unknown_id());
  const auto shards_of = [&](const char* split, std::uint16_t id) {
    write_file(dir / fmt::format("fineweb_{}_000000.bin", split),
               test::shard_bytes(std::vector<std::uint16_t>{1, 100, id, 101}));
    return ShardSet(dir.path(), split, tokenizer.pieces());
  };
  const auto known = shards_of("train", 102), val = shards_of("val", unknown);
  test::expect_part(
      test::error_of(ExitCode::bad_data, [&] { text_baselines(known, val, tokenizer); }),
      "1 unknown pieces in");
  EXPECT_NO_THROW(text_baselines(val, known, tokenizer));
}

}  // namespace
}  // namespace tg
