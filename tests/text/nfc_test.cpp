#include "text/nfc.h"

#include <nlohmann/json.hpp>

#include "data/byte_count.h"
#include "tests/files/testing.h"
#include "text/tokenizer.h"

namespace tg {
namespace {

const std::string fixtures = std::string(TEST_DATA_DIR) + "/";

// Texts in many scripts, decomposed ones and marks in any order among them, with the ids of
// Python's tokenizers and unicodedata's normal form.
const nlohmann::json& samples() {
  static const auto all = nlohmann::json::parse(test::read_file(fixtures + "nfc_tokens.json"));
  return all;
}

std::string nfc(std::string_view text) {
  return std::string(NfcText(text).text());
}

TEST(Nfc, IsUnicodedatasInManyScripts) {
  std::size_t changed = 0;
  for (const auto& sample : samples()) {
    const auto text = sample["text"].get<std::string>();
    const auto normalised = sample["normalised"].get<std::string>();
    ASSERT_EQ(nfc(text), normalised);
    ASSERT_EQ(nfc(normalised), normalised);
    changed += text != normalised;
  }
  EXPECT_GT(changed, 100U);
}

TEST(Nfc, ComposesOrdersAndKeepsWhatTheStandardSays) {
  EXPECT_EQ(nfc("\u1100\u1161\u11a8 \uac00\u11a8"), "\uac01 \uac01");  // Hangul
  EXPECT_EQ(nfc("e\u0323\u0302 e\u0302\u0323"), "\u1ec7 \u1ec7");      // Vietnamese
  EXPECT_EQ(nfc("\u00ea\u0323"), "\u1ec7");                            // below U+0300
  EXPECT_EQ(nfc("\u212b \u2126"), "\u00c5 \u03a9");                    // one for one
  EXPECT_EQ(nfc("\u0958 \ufb31"), "\u0915\u093c \u05d1\u05bc");        // never composed
  EXPECT_EQ(nfc("a\u0301b c\u00e9"), "\u00e1b c\u00e9");
  EXPECT_EQ(nfc("\ufb01 \u00b2"), "\ufb01 \u00b2");  // compatibility characters stay
  EXPECT_EQ(nfc("\u0301a"), "\u0301a");
  EXPECT_EQ(nfc(""), "");
}

TEST(Nfc, KeepsBytesThatAreNoUtf8) {
  EXPECT_EQ(nfc("e\xff\u0301 e\u0301\xcc"), "e\xff\u0301 \u00e9\xcc");
  EXPECT_EQ(nfc("\xe1\x84\x80\xe1\x85"), "\xe1\x84\x80\xe1\x85");
  EXPECT_EQ(nfc("\x80\u0301\xf8"), "\x80\u0301\xf8");
}

// utf8proc's own order of marks would take minutes.
TEST(Nfc, TakesTimeInProportionToARunOfMarks) {
  std::string marks = "a", ordered = "a";
  for (int i = 0; i < 300'000; ++i) marks += i % 2 == 0 ? "\u0315" : "\u0327";
  for (int i = 0; i < 150'000; ++i) ordered += "\u0327";
  for (int i = 0; i < 150'000; ++i) ordered += "\u0315";
  EXPECT_TRUE(nfc(marks) == ordered);
}

TEST(Nfc, KnowsTheBytesOfTheOriginal) {
  const std::string text = "ab e\u0323\u0302 c\u1100\u1161d";
  const NfcText normal(text);  // ab ệ c가d
  ASSERT_EQ(normal.text(), "ab \u1ec7 c\uac00d");
  const std::vector<std::size_t> expected = {0, 1, 2, 3, 4, 6, 8, 9, 10, 12, 14, 16, 17};
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at <= normal.text().size(); ++at)
    found.push_back(normal.original_bytes(at));
  EXPECT_EQ(found, expected);
}

TEST(NfcTokenizer, HasPythonsIdsAndCountsTheBytesOfTheNormalisedText) {
  const Tokenizer tokenizer(fixtures + "tokenizer_nfc.json");
  EXPECT_EQ(tokenizer.normalisation(), "NFC");
  const auto table = make_byte_table(tokenizer, 0);
  for (const auto& sample : samples()) {
    const auto text = sample["text"].get<std::string>();
    const auto normalised = sample["normalised"].get<std::string>();
    std::vector<TokenId> ids{0};
    tokenizer.encode(text, ids);
    ASSERT_EQ(std::vector<TokenId>(ids.begin() + 1, ids.end()),
              sample["ids"].get<std::vector<TokenId>>())
        << text;
    EXPECT_EQ(tokenizer.decode(ids), normalised);
    EXPECT_EQ(tokenizer.normalized(text), normalised);
    EXPECT_EQ(count_bytes(table, ids), std::ssize(normalised));
  }
}

// A sidecar counts the text before normalisation.
TEST(NfcTokenizer, CountsTheBytesOfTheTextThatATokenStandsFor) {
  const Tokenizer tokenizer(fixtures + "tokenizer_nfc.json");
  for (const auto& sample : samples()) {
    const auto text = sample["text"].get<std::string>();
    std::vector<TokenId> ids;
    std::vector<std::uint16_t> bytes;
    tokenizer.encode_counted(text, false, ids, bytes);
    ASSERT_EQ(ids, sample["ids"].get<std::vector<TokenId>>());
    ASSERT_EQ(bytes.size(), ids.size());
    std::int64_t sum = 0;
    for (const auto count : bytes) sum += count;
    EXPECT_EQ(sum, std::ssize(text)) << text;
  }
}

TEST(NfcTokenizer, EncodesPartsAsTheWhole) {
  const Tokenizer tokenizer(fixtures + "tokenizer_nfc.json");
  std::string text;
  for (const auto& sample : samples()) text += sample["text"].get<std::string>() + " word and ";
  std::vector<TokenId> whole, joined;
  tokenizer.encode(text, whole);
  const auto parts = tokenizer.split(text, 100);
  EXPECT_GT(parts.size(), 50U);
  for (const auto part : parts) tokenizer.encode_continued(part, joined);
  EXPECT_EQ(joined, whole);
}

}  // namespace
}  // namespace tg
