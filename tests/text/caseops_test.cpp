#include "text/caseops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "base/utf8.h"

namespace tg {
namespace {

std::string decode(std::string_view coded) {
  return CaseDecoder().add(coded);
}

bool has_capital(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
}

TEST(CaseOps, WritesACapitalAsAnOperatorBeforeTheSmallLetter) {
  const struct {
    const char *text, *coded;
  } cases[] = {
      {.text = "", .coded = ""},
      {.text = "small letters 1", .coded = "small letters 1"},
      {.text = "The Word", .coded = "\ue001the \ue001word"},
      {.text = "NASA", .coded = "\ue002nasa"},
      {.text = "I X", .coded = "\ue001i \ue001x"},
      {.text = "AB", .coded = "\ue002ab"},
      {.text = "Ab", .coded = "\ue001ab"},
      {.text = "aB", .coded = "a\ue003b"},
      {.text = "ABc", .coded = "\ue001a\ue003bc"},
      {.text = "aBC", .coded = "a\ue003b\ue003c"},
      {.text = "McDonald", .coded = "\ue001mc\ue003donald"},
      {.text = "x1Y2ZZ", .coded = "x1\ue001y2\ue002zz"},
      {.text = "naÏVE ÉCole", .coded = "naÏ\ue002ve É\ue001cole"},
      {.text = "\ue001\ue002\ue003\ue004A",
       .coded = "\ue004\ue001\ue004\ue002\ue004\ue003\ue004\ue004\ue001a"},
      {.text = "\ue000\ue005", .coded = "\ue000\ue005"},
  };
  for (const auto& [text, coded] : cases) {
    EXPECT_EQ(encode_case(text), coded);
    EXPECT_EQ(decode(coded), text);
  }
}

TEST(CaseOps, GivesBackEveryCharacterOfUnicodeAloneAndBetweenLetters) {
  std::string all;
  for (char32_t code = 0; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    std::string character;
    append_utf8(character, code);
    for (const std::string& text : {character, "AB" + character + "Cd", "aB" + character + "c"})
      ASSERT_EQ(decode(encode_case(text)), text) << static_cast<std::uint32_t>(code);
    all += character;
  }
  EXPECT_TRUE(decode(encode_case(all)) == all);
}

class RandomCaseOps : public testing::Test {
 protected:
  std::string text() {
    const char* const characters[] = {"a", "b", "Z", "Q", "X",  " ",      "1",      "É",
                                      "ß", "☃", "😀", "'", "\n", "\ue001", "\ue002", "\ue004"};
    std::string made;
    for (auto n = random() % 40; n > 0; --n) made += characters[random() % std::size(characters)];
    return made;
  }
  // Places between the characters of a text.
  std::size_t cut(std::string_view bytes) {
    auto at = random() % (bytes.size() + 1);
    while (at < bytes.size() && continues_utf8_character(bytes[at])) ++at;
    return at;
  }

  std::mt19937 random{5};
};

TEST_F(RandomCaseOps, GivesBackTheText) {
  for (int i = 0; i < 20'000; ++i) {
    const auto original = text(), coded = encode_case(original);
    EXPECT_FALSE(has_capital(coded));
    ASSERT_EQ(decode(coded), original) << coded;
  }
}

TEST_F(RandomCaseOps, DecodesPartsAsTheWhole) {
  for (int i = 0; i < 5'000; ++i) {
    // Texts of chance: what a model draws is often no coded text.
    const auto coded = text();
    const auto at = cut(coded);
    CaseDecoder decoder;
    auto parts = decoder.add(coded.substr(0, at));
    parts += decoder.add(coded.substr(at));
    ASSERT_EQ(parts, decode(coded)) << coded << at;
  }
}

TEST_F(RandomCaseOps, EncodesPartsCutBeforeASpaceAsTheWhole) {
  for (int i = 0; i < 5'000; ++i) {
    const auto first = text(), second = " " + text();
    ASSERT_EQ(encode_case(first) + encode_case(second), encode_case(first + second));
  }
}

TEST(CaseOps, LeavesOutOperatorsThatNoLetterFollows) {
  EXPECT_EQ(decode("\ue001 a\ue0021b\ue003\ue001c\ue002"), " a1bC");
  EXPECT_EQ(decode("\ue002ab cd"), "AB cd");
  EXPECT_EQ(decode("\ue002a\ue004bc"), "Abc");
  EXPECT_EQ(decode("\ue004"), "");
}

}  // namespace
}  // namespace tg
