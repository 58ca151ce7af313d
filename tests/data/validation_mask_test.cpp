#include "data/validation_mask.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "data/vocabulary.h"
#include "tests/data/shards.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::read_file;
using test::write_file;
using Table = std::vector<std::uint8_t>;

constexpr int kVocab = 704;  // 700 pieces, <|endoftext|> and padding

class ValidationMask : public testing::Test {
 protected:
  ValidationMask() {
    settings.run.validation_mask = true;
    settings.model.vocab_size = kVocab;
    settings.data.tokenizer_path = dir / "vocab.bpe";
    write_file(dir / "vocab.bpe", told["merge_list"].get<std::string>());
    write_file(dir / "small.tiktoken", told["rank_table"].get<std::string>());
  }
  bool is_marked(const Table& table, TokenId p, TokenId c) const {
    return (table[p * (kVocab / 8) + c / 8] >> c % 8 & 1) != 0;
  }
  void expect_refused(ExitCode code, const std::string& part) const {
    expect_part(error_of(code, [&] { validation_mask(settings); }), part);
  }

  test::TempDir dir;
  Settings settings;
  nlohmann::json told = nlohmann::json::parse(read_file(TEST_DATA_DIR "/gpt2_tokens.json"));
};

// Without contractions, which are no pieces of this vocabulary.
TEST_F(ValidationMask, LeavesCanonicalTextAlone) {
  const auto table = validation_mask(settings);
  ASSERT_EQ(table.size(), std::size_t{kVocab} * kVocab / 8);
  int bits = 0;
  for (const auto byte : table) bits += std::popcount(byte);
  EXPECT_GT(bits, kVocab);
  for (const auto& sample : told["samples"]) {
    if (sample["text"].get<std::string>().find('\'') != std::string::npos) continue;
    const auto ids = sample["ids"].get<std::vector<TokenId>>();
    for (std::size_t i = 1; i < ids.size(); ++i)
      EXPECT_FALSE(is_marked(table, ids[i - 1], ids[i])) << sample["text"];
  }
}

// A pair is marked only if the tokenizer writes the text of both in another way.
TEST_F(ValidationMask, HasNoPairThatTheTokenizerWrites) {
  const auto table = validation_mask(settings);
  const auto tokenizer = make_tokenizer(settings.data, kVocab);
  std::vector<TokenId> ids;
  for (TokenId p = 0; p < 700; ++p) {
    for (TokenId c = 0; c < 700; ++c) {
      if (!is_marked(table, p, c)) continue;
      ids.clear();
      tokenizer.encode(tokenizer.piece(static_cast<int>(p)) + tokenizer.piece(static_cast<int>(c)),
                       ids);
      EXPECT_NE(ids, (std::vector{p, c}));
    }
  }
}

TEST_F(ValidationMask, IsTheSameOfEachFormOfTheVocabulary) {
  const auto table = validation_mask(settings);
  const auto tokenizer = make_tokenizer(settings.data, kVocab);
  nlohmann::json vocabulary;
  for (int id = 0; id < 700; ++id) {
    std::string hex;
    for (const char byte : tokenizer.piece(id))
      hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    vocabulary[hex] = id;
  }
  settings.data.tokenizer_path = dir / "small.tiktoken";
  settings.data.tokenizer_pattern = "gpt2";
  EXPECT_EQ(validation_mask(settings), table);
  settings.data.tokenizer_path = "";
  settings.run.validation_mask_vocabulary = dir / "vocabulary.json";
  write_file(dir / "vocabulary.json", vocabulary.dump());
  EXPECT_EQ(validation_mask(settings), table);
}

TEST_F(ValidationMask, NeedsAByteLevelVocabularyWithGpt2sWords) {
  settings.data.tokenizer_path = dir / "small.tiktoken";
  settings.data.tokenizer_pattern = "llama3";
  expect_refused(ExitCode::config, "splits text into words by a pattern of its own");
  settings.data.tokenizer_pattern = "";
  settings.data.tokenizer_path = std::string(TEST_DATA_DIR) + "/data_bpe.model";
  settings.model.vocab_size = 512;
  expect_refused(ExitCode::config, "expected a byte-level BPE, found sentencepiece");
  settings.data.tokenizer_path = "";
  expect_refused(ExitCode::config, "set one of TOKENIZER_PATH and VALIDATION_MASK_VOCABULARY");
  settings.model.vocab_size = 1 << 18;
  expect_refused(ExitCode::config, "expected VOCAB_SIZE up to 131072, found 262144");
}

}  // namespace
}  // namespace tg
