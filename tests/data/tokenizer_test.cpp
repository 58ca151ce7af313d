#include "data/tokenizer.h"

#include <nlohmann/json.hpp>

#include "data/byte_count.h"
#include "data/model_proto.h"
#include "tests/data/files.h"

namespace tg {
namespace {

using test::error_of;
using test::expect_part;
using test::expect_start;
using test::read_file;
using test::TempDir;
using test::write_file;
using Ids = std::vector<std::uint16_t>;

const std::string fixtures = std::string(TEST_DATA_DIR) + "/";
const std::string bpe_path = fixtures + "data_bpe.model";

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

class AgainstPython : public testing::TestWithParam<const char*> {
 protected:
  nlohmann::json told = nlohmann::json::parse(read_file(fixtures + "data_tokens.json"))[GetParam()];
  Tokenizer tokenizer{fixtures + GetParam() + ".model"};
};

TEST_P(AgainstPython, EncodesAndDecodesAlike) {
  for (const auto& sample : told["samples"]) {
    Ids ids{static_cast<std::uint16_t>(tokenizer.bos_id())};
    tokenizer.encode(sample["text"].get<std::string>(), ids);
    EXPECT_EQ(ids, sample["ids"].get<Ids>()) << sample["text"];
    EXPECT_EQ(tokenizer.decode(ids), sample["decoded"].get<std::string>());
  }
}

TEST_P(AgainstPython, GivesEachPieceTheSameBytes) {
  const ByteTable table = make_byte_table(tokenizer, 100);
  EXPECT_EQ(table.base_bytes, told["base_bytes"].get<std::vector<std::int16_t>>());
  EXPECT_EQ(table.leading_space, told["leading_space"].get<std::vector<std::uint8_t>>());
  EXPECT_EQ(table.boundary, told["boundary"].get<std::vector<std::uint8_t>>());
  for (const auto& sample : told["samples"]) {
    const auto ids = sample["ids"].get<Ids>();
    const std::span all(ids);
    EXPECT_EQ(count_bytes(table, all.first(all.size() - 1), all.subspan(1)),
              sample["bytes"].get<std::int64_t>());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AgainstPython,
                         testing::Values("data_bpe", "data_exact", "data_odd"));

TEST(ByteTable, GivesIdsBeyondThePiecesNoBytesAndMakesThemBoundaries) {
  const Tokenizer tokenizer(bpe_path);
  const ByteTable table = make_byte_table(tokenizer, 600);
  ASSERT_EQ(table.base_bytes.size(), 600U);
  EXPECT_EQ(table.base_bytes[599], 0);
  EXPECT_EQ(table.leading_space[599], 0);
  EXPECT_EQ(table.boundary[599], 1);
}

TEST(ByteTable, CountsTheBytesOfAsciiTextWithoutTheSpaceBeforeItsFirstWord) {
  const Tokenizer tokenizer(bpe_path);
  const std::string text = "every byte of this sentence is counted once";
  Ids ids{1};
  tokenizer.encode(text, ids);
  const std::span all(ids);
  EXPECT_EQ(count_bytes(make_byte_table(tokenizer, 0), all.first(all.size() - 1), all.subspan(1)),
            std::ssize(text));
}

TEST(Tokenizer, SaysWhichFileIsMissing) {
  const TempDir dir;
  const auto missing = dir / "no.model";
  expect_start(error_of(ExitCode::missing_input, [&] { Tokenizer{missing}; }),
               "cannot open " + missing + " (No such file");
  expect_part(error_of(ExitCode::missing_input, [&] { Tokenizer{dir.path()}; }), "found a folder");
}

TEST(Tokenizer, RefusesAnyOtherVocabularySize) {
  EXPECT_EQ(Tokenizer(bpe_path, 512).pieces(), 512);
  for (const int size : {511, 513, 1024}) {
    expect_start(error_of(ExitCode::config, [&] { Tokenizer(bpe_path, size); }),
                 fmt::format("VOCAB_SIZE={} does not match tokenizer vocab_size=512", size));
  }
}

TEST(Tokenizer, RefusesEveryModelCutShortAndSaysNothingElse) {
  const TempDir dir;
  const std::string whole = read_file(bpe_path), path = dir / "cut.model";
  // Python's trainer ends a model with an empty message that nobody needs: 2 bytes.
  testing::internal::CaptureStderr();
  for (std::size_t size = 0; size + 2 < whole.size(); size += size < whole.size() - 400 ? 37 : 1) {
    write_file(path, whole.substr(0, size));
    expect_part(error_of(ExitCode::bad_data, [&] { Tokenizer{path}; }), path);
  }
  for (const std::string& garbage :
       {std::string(5000, 'x'), std::string(5000, '\0'), std::string("\x12\x00\x1a\x00", 4)}) {
    write_file(path, garbage);
    expect_part(error_of(ExitCode::bad_data, [&] { Tokenizer{path}; }), path);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The library quotes a piece that it refuses.
TEST(Tokenizer, ShowsNoControlCharactersOfABrokenModel) {
  const TempDir dir;
  std::string model = read_file(bpe_path);
  model.replace(model.find("<0x41>"), 6, "<\n\x1b[m>");
  write_file(dir / "m", model);
  expect_part(error_of(ExitCode::bad_data, [&] { Tokenizer(dir / "m"); }), "<\\x0a\\x1b[m>");
}

TEST(ModelProto, ReadsEveryWireTypeAndStopsAtNonsense) {
  using namespace std::string_literals;
  EXPECT_TRUE(scan_model_proto("")->has_trainer == false);
  const auto model = scan_model_proto(
      "\x12\x02\x18\x02\x1a\x00\x25"
      "abcd\x29"
      "abcdefgh\x38\x01"s);
  ASSERT_TRUE(model);
  EXPECT_TRUE(model->has_trainer && model->has_normalizer && model->bpe);
  for (const auto& nonsense :
       {"\x12"s, "\x12\x05xx"s, "\x13"s,
        "\x25"
        "abc"s,
        "\x18\xff"s, std::string(12, '\xff'), "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f"s}) {
    EXPECT_FALSE(scan_model_proto(nonsense)) << nonsense.size();
  }
}

TEST(Tokenizer, SplitsTextOnlyWhereTheIdsStayTheSame) {
  const Tokenizer bpe(bpe_path), odd(fixtures + "data_odd.model");
  std::string text;
  const char* words[] = {"licence", "and", "Wort", "(c)", "2004", "x-y",
                         "über",    "  ",  "\n",   "☃",   "."};
  for (unsigned i = 0; i < 4000; ++i) text += std::string(words[i * 7919U % 97 % 11]) + " ";
  const Ids whole = encode(bpe, text);
  for (const std::size_t size : {1, 2, 10, 333, 5000}) {
    const auto parts = bpe.split(text, size);
    EXPECT_GT(parts.size(), text.size() / (size + 200));
    Ids joined;
    std::string text_again;
    for (const auto part : parts) {
      text_again += part;
      if (joined.empty()) {
        bpe.encode(part, joined);
      } else {
        bpe.encode_continued(part, joined);
      }
    }
    EXPECT_EQ(text_again, text);
    EXPECT_EQ(joined, whole) << size;
  }
  EXPECT_EQ(odd.split(text, 10).size(), 1U) << "a unigram model with pieces across spaces";
  EXPECT_EQ(bpe.split("", 10).size(), 1U);
}

}  // namespace
}  // namespace tg
