#include "eval/sampling/text_stream.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "base/utf8.h"
#include "tests/files/testing.h"

namespace tg {
namespace {

using Ids = std::vector<TokenId>;

class TextStreamOf : public testing::TestWithParam<std::string> {
 protected:
  Ids encode(std::string_view text) const {
    Ids ids;
    tokenizer.encode(text, ids);
    return ids;
  }
  // Returns the text that is passed on for each of `ids`.
  std::vector<std::string> texts_of(const Ids& prompt, const Ids& ids) const {
    std::vector<std::string> texts(ids.size());
    std::size_t now = 0;
    TextStream stream(tokenizer, prompt, [&](std::string_view text) { texts[now] = text; });
    for (; now < ids.size(); ++now) stream.add(ids[now]);
    return texts;
  }
  // Any ids: pieces, bytes that are not valid text, control and unknown ones.
  Ids random_ids(std::size_t count) const {
    std::mt19937 random(1);
    Ids ids(count);
    for (auto& id : ids)
      id = static_cast<TokenId>(random() % static_cast<unsigned>(tokenizer.pieces()));
    return ids;
  }
  void expect_text_of_decode(const Ids& prompt, const Ids& ids) const {
    std::string text = tokenizer.decode(prompt);
    for (const auto& part : texts_of(prompt, ids)) {
      EXPECT_EQ(valid_utf8_prefix(part), part.size()) << part;
      text += part;
    }
    auto all = prompt;
    all.insert(all.end(), ids.begin(), ids.end());
    const auto whole = tokenizer.decode(all);
    ASSERT_TRUE(whole.starts_with(text));
    const auto rest = whole.substr(text.size());  // at most three bytes of an incomplete character
    EXPECT_TRUE(std::string("\uFFFD\uFFFD\uFFFD").starts_with(rest)) << rest;
  }

  const Tokenizer tokenizer{TEST_DATA_DIR "/" + GetParam() + ".model", 0,
                            GetParam() == "data_caseops"};
};

TEST_P(TextStreamOf, IsTheTextOfAllTokens) {
  const Ids bos{static_cast<TokenId>(tokenizer.bos_id())};
  for (const auto& prompt : {bos, encode("The licence"), encode(" "), Ids()}) {
    expect_text_of_decode(prompt, random_ids(3000));
    // From the text's beginning, which loses a space if the tokenizer adds one.
    expect_text_of_decode(prompt, encode(" leading space,  tabs\tand words"));
    expect_text_of_decode(prompt, encode("IN capitals: McDonald, XYLOPHONES"));
  }
}

// Decoding everything again for each token would take hours.
TEST_P(TextStreamOf, TakesTimeInProportionToTheTokens) {
  expect_text_of_decode(encode("The"), random_ids(100'000));
}

INSTANTIATE_TEST_SUITE_P(Models, TextStreamOf,
                         testing::Values("data_bpe", "data_exact", "data_odd", "data_caseops"));

// Byte pieces: no text until the last byte of a character.
TEST(TextStreamTest, PassesOnACharacterWithItsLastByte) {
  const Tokenizer tokenizer(TEST_DATA_DIR "/data_bpe.model");
  const std::string text = "Z\u00f6lf \u2603 \u65e5\u672c\u8a9e \U0001F469\u200D\U0001F680!";
  Ids prompt, ids;
  tokenizer.encode("the", prompt);
  tokenizer.encode(text, ids);
  std::string passed_on;
  std::size_t pieces_of_bytes = 0, parts = 0;
  TextStream stream(tokenizer, prompt, [&](std::string_view part) {
    EXPECT_EQ(valid_utf8_prefix(part), part.size());
    passed_on += part;
    ++parts;
  });
  for (const auto id : ids) {
    pieces_of_bytes += tokenizer.kind(id) == Tokenizer::Kind::byte ? 1 : 0;
    stream.add(id);
  }
  EXPECT_EQ(passed_on, " " + text);
  EXPECT_GT(pieces_of_bytes, 10U);
  EXPECT_LT(parts, ids.size() - 10);
}

TEST(TextStreamTest, PassesOnBytesThatAreNoCharacterAfterThreeMore) {
  const Tokenizer tokenizer(TEST_DATA_DIR "/data_bpe.model");
  const auto texts_of = [&](const std::vector<const char*>& pieces) {
    std::vector<std::string> texts(pieces.size());
    std::size_t now = 0;
    Ids prompt;
    tokenizer.encode("the", prompt);
    TextStream stream(tokenizer, prompt, [&](std::string_view text) { texts[now] = text; });
    for (; now < pieces.size(); ++now) {
      int id = 0;
      while (tokenizer.piece(id) != pieces[now]) ++id;
      stream.add(static_cast<TokenId>(id));
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of({"<0xFF>", "<0xFF>", "<0xFF>", "<0xFF>", "<0xFF>"}),
            (Texts{"", "", "", "\uFFFD", "\uFFFD"}));
  EXPECT_EQ(texts_of({"<0xFF>", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"}),
            (Texts{"", "", "", "\uFFFD", "\U0001F600"}));
  EXPECT_EQ(texts_of({"<0xE2>", "<0x41>"}), (Texts{"", "\uFFFDA"}));
}

// Pieces of a byte-level vocabulary may begin and end within characters.
TEST(TextStreamTest, PassesOnWholeCharactersOfBytes) {
  const test::TempDir dir;
  const auto told = nlohmann::json::parse(test::read_file(TEST_DATA_DIR "/gpt2_tokens.json"));
  test::write_file(dir / "vocab.bpe", told["merge_list"].get<std::string>());
  const Tokenizer tokenizer(dir / "vocab.bpe");
  std::mt19937 random(1);
  Ids ids;
  for (const auto& sample : told["samples"]) {
    // The ids of many texts, and any ids, including bytes that are not valid text.
    for (const auto& id : sample["ids"]) ids.push_back(id.get<TokenId>());
    for (int i = 0; i < 3; ++i) ids.push_back(static_cast<TokenId>(random() % 701));
  }
  std::string passed_on;
  TextStream stream(tokenizer, Ids{700}, [&](std::string_view part) {
    EXPECT_FALSE(part.empty());
    EXPECT_EQ(valid_utf8_prefix(part), part.size());
    passed_on += part;
  });
  for (const auto id : ids) stream.add(id);
  auto bytes = tokenizer.decode(ids);
  EXPECT_EQ(passed_on, take_utf8(bytes));
  EXPECT_LT(bytes.size(), 4U);
}

}  // namespace
}  // namespace tg
