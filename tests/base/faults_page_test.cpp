// Checks that docs/faults.md and base/error.h list the same exit codes.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace tg {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the first group of every match.
std::set<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.insert((*match)[1]);
  }
  return found;
}

TEST(FaultsPage, ListsTheExitCodesThatThereAre) {
  const auto page = text_of(SOURCE_DIR "/docs/faults.md");
  const auto codes = matches(text_of(SOURCE_DIR "/src/base/error.h"), R"(  \w+ = (\d+),)");
  EXPECT_GE(codes.size(), 11u);
  EXPECT_EQ(matches(page, R"(\n\| (\d+) \|)"), codes);
}

}  // namespace
}  // namespace tg
