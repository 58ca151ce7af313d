#include <gtest/gtest.h>

#include <vector>

#include "eval/sampling/text_stream.h"

namespace tg {
namespace {

struct Passed {
  std::vector<std::string> parts;
  bool found;
};

Passed passed(const std::string& stop, const std::vector<std::string>& texts) {
  Passed all{};
  StopText stream(stop, [&](std::string_view text) { all.parts.emplace_back(text); });
  for (const auto& text : texts) stream.add(text);
  all.found = stream.found();
  stream.end();
  return all;
}

using Parts = std::vector<std::string>;

TEST(StopText, PassesOnWhatIsBeforeItInHoweverManyPartsItComes) {
  for (const auto& texts :
       {Parts{"one\n\ntwo"}, {"one\n", "\ntwo"}, {"on", "e", "\n", "\n", "two"}}) {
    std::string text;
    const auto all = passed("\n\n", texts);
    for (const auto& part : all.parts) text += part;
    EXPECT_EQ(text, "one");
    EXPECT_TRUE(all.found);
  }
}

TEST(StopText, HoldsBackNoMoreThanMayBecomeIt) {
  EXPECT_EQ(passed("abac", {"xab", "ab", "a", "y", "ab"}).parts, (Parts{"x", "ab", "abay", "ab"}));
  EXPECT_FALSE(passed("abac", {"xab", "ab", "a", "y", "ab"}).found);
  // After a mismatch a shorter end of the text may still begin the stop text: "aa" of "aaa".
  EXPECT_EQ(passed("aab", {"a", "a", "a", "b", "c"}).parts, (Parts{"a"}));
}

TEST(StopText, WithoutOneEverythingIsPassedOnAtOnce) {
  const auto all = passed("", {"one", "two"});
  EXPECT_EQ(all.parts, (Parts{"one", "two"}));
  EXPECT_FALSE(all.found);
}

}  // namespace
}  // namespace tg
