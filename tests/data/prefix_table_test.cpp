#include "data/prefix_table.h"

#include <gtest/gtest.h>

namespace tg {
namespace {

using Ids = std::vector<std::int64_t>;

TEST(LongestPrefix, IsTheLongestNormalPieceThatBeginsAPiece) {
  const std::vector<std::string> pieces{"a",   "b",        "ab",   "abc",  "abcde",
                                        "abd", "\xc3\xa9", "\xc3", "abcd", "ba"};
  std::vector<PieceKind> kinds(pieces.size(), PieceKind::normal);
  kinds[8] = PieceKind::control;
  EXPECT_EQ(longest_prefixes(pieces, kinds), (Ids{-1, -1, 0, 2, 3, 2, 7, -1, -1, 1}));
}

TEST(LongestPrefix, EqualPiecesAreNoProperPrefixesOfEachOther) {
  const std::vector<std::string> pieces{"x", "xy", "xy", "xyz"};
  const std::vector<PieceKind> kinds(pieces.size(), PieceKind::normal);
  const auto found = longest_prefixes(pieces, kinds);
  EXPECT_EQ((Ids{found[0], found[1], found[2]}), (Ids{-1, 0, 0}));
  EXPECT_TRUE(found[3] == 1 || found[3] == 2);
}

}  // namespace
}  // namespace tg
