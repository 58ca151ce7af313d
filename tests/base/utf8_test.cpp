#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tg {
namespace {

TEST(Utf8, AcceptsExactlyTheWellFormedSequences) {
  const std::string good = "a\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff";
  EXPECT_EQ(valid_utf8_prefix(good), good.size());
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_EQ(valid_utf8_prefix(std::string("ok") + bad), 2U) << bad;
  }
}

// Returns what take_utf8() returns for each part, fed one after another.
std::vector<std::string> taken(const std::vector<std::string>& parts) {
  std::vector<std::string> texts;
  std::string waiting;
  for (const auto& part : parts) {
    waiting += part;
    texts.push_back(take_utf8(waiting));
  }
  return texts;
}

TEST(Utf8, IsTakenAsSoonAsACharacterIsWhole) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(taken({"a\xe2", "\x98", "\x83z", ""}), (Texts{"a", "", "\u2603z", ""}));
  EXPECT_EQ(taken({"\xf0", "\x9f", "\x98", "\x80"}), (Texts{"", "", "", "\U0001F600"}));
  EXPECT_EQ(taken({"\xe2\x98", "\x83\xc3", "\xa9"}), (Texts{"", "\u2603", "\u00e9"}));
}

TEST(Utf8, IsReplacedAsSoonAsNoCharacterCanComeOfIt) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(taken({"\xff", "\x80", "b"}), (Texts{"\uFFFD", "\uFFFD", "b"}));
  EXPECT_EQ(taken({"\xe2", "A"}), (Texts{"", "\uFFFDA"}));
  EXPECT_EQ(taken({"\xe0\x80", "\xed\xa0"}), (Texts{"\uFFFD\uFFFD", "\uFFFD\uFFFD"}));
  EXPECT_EQ(taken({"\xf0\x9f\x98", "\xf0\x9f\x98\x80"}),
            (Texts{"", "\uFFFD\uFFFD\uFFFD\U0001F600"}));
}

}  // namespace
}  // namespace tg
