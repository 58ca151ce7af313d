#include "text/word_boundary.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/text/documents.h"

namespace tg {
namespace {

using enum CharacterClass;

TEST(WordBoundary, ClassesAreThoseOfTheScriptOfRecord91) {
  const std::map<std::string, CharacterClass> classes = {
      {"?", inside}, {"S", space}, {"L", letter}, {"N", number}, {"O", other}};
  const auto told = nlohmann::json::parse(test::read_file(TEST_DATA_DIR "/record_91_mask.json"));
  for (const auto& [hex, expected] : told["classes"].items()) {
    std::string piece;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      piece += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    EXPECT_EQ(class_of_start(piece), classes.at(expected[0])) << hex;
    EXPECT_EQ(class_of_end(piece), classes.at(expected[1])) << hex;
    EXPECT_EQ(ends_in_contraction(piece), expected[2].get<bool>()) << hex;
  }
}

TEST(WordBoundary, SpaceIsUnicodesWhiteSpace) {
  for (const auto* const text :
       {"\t", "\r", "\u0085", "\u1680", "\u2009", "\u2028", "\u202f", "\u205f", "\u3000"})
    EXPECT_EQ(class_of_end(text), space) << text;
  for (const auto* const text : {"\x1c", "\x1f", "\u180e", "\u200b", "\u2060", "\ufeff"})
    EXPECT_EQ(class_of_end(text), other) << text;
}

TEST(WordBoundary, LettersAndNumbersAreUnicodesCategories) {
  for (const auto* const text : {"a", "Z", "\u01c5", "\u02b0", "\u00aa", "\u65e5", "\U00010400"})
    EXPECT_EQ(class_of_start(text), letter) << text;
  for (const auto* const text : {"7", "\u00b2", "\u2167", "\u00bd", "\u0663"})
    EXPECT_EQ(class_of_start(text), number) << text;
  for (const auto* const text : {"_", "'", "\u0301", "\u20dd", "\U0001F600", "\x7f"})
    EXPECT_EQ(class_of_start(text), other) << text;
}

TEST(WordBoundary, PiecesMayBeginOrEndInsideACharacter) {
  EXPECT_EQ(class_of_start("\xa9t"), inside);
  EXPECT_EQ(class_of_end("t\xc3"), inside);
  EXPECT_EQ(class_of_end("\xa9"), inside);
  EXPECT_EQ(class_of_start("\xed\xa0\x80"), inside);  // a surrogate
}

TEST(WordBoundary, AWordMayEndBetweenSpacesBehindPunctuationAndInsideACharacter) {
  for (const auto end : {inside, space, letter, number, other}) {
    EXPECT_TRUE(may_end_word(end, inside));
    EXPECT_EQ(may_end_word(end, space), end == space);
    EXPECT_EQ(may_end_word(end, letter), end == other);
    EXPECT_FALSE(may_end_word(end, number));
    EXPECT_FALSE(may_end_word(end, other));
  }
}

TEST(WordBoundary, AContractionEndsAWordAtItsStartAndBehindLettersAndNumbers) {
  for (const auto* const piece : {"'s", "t's", "1's", "n't", "\u00e9'll", "'re", "'ve", "'m", "'d"})
    EXPECT_TRUE(ends_in_contraction(piece)) << piece;
  for (const auto* const piece :
       {"'S", " 's", "-'s", "''s", "'x", "s", "\u2019s", "\xc3's", "\u0301's", "'st"})
    EXPECT_FALSE(ends_in_contraction(piece)) << piece;
}

}  // namespace
}  // namespace tg
