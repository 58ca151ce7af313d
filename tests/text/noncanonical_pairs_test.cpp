#include "text/noncanonical_pairs.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tests/text/documents.h"

namespace tg {
namespace {

using Pairs = std::set<std::pair<std::string, std::string>>;

// Pieces whose ids are their ranks, in this order.
std::vector<RankedPiece> in_order(std::initializer_list<std::string> bytes) {
  std::vector<RankedPiece> pieces;
  for (const auto& piece : bytes) {
    const auto id = static_cast<TokenId>(pieces.size());
    pieces.push_back({.bytes = piece, .id = id, .rank = id});
  }
  return pieces;
}

bool is_marked(const std::vector<std::uint8_t>& table, std::int64_t vocab, TokenId p, TokenId c) {
  const auto row_bytes = static_cast<std::size_t>((vocab + 7) / 8);
  return (table[p * row_bytes + c / 8] >> c % 8 & 1) != 0;
}

Pairs pairs_of_pieces(const std::vector<RankedPiece>& pieces) {
  std::int64_t vocab = 0;
  for (const auto& piece : pieces) vocab = std::max<std::int64_t>(vocab, piece.id + 1);
  const auto table = noncanonical_pairs(pieces, vocab);
  Pairs pairs;
  for (const auto& p : pieces)
    for (const auto& c : pieces)
      if (is_marked(table, vocab, p.id, c.id)) pairs.emplace(p.bytes, c.bytes);
  return pairs;
}
Pairs pairs_of(std::initializer_list<std::string> in_order_of_rank) {
  return pairs_of_pieces(in_order(in_order_of_rank));
}

TEST(NoncanonicalPairs, AreThoseOfTheScriptOfRecord91) {
  const auto told = nlohmann::json::parse(test::read_file(TEST_DATA_DIR "/record_91_mask.json"));
  std::vector<RankedPiece> pieces;
  for (const auto& [hex, id] : told["vocabulary_bytes_hex"].items()) {
    std::string bytes;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    pieces.push_back({.bytes = bytes, .id = id, .rank = id});
  }
  const std::int64_t vocab = told["V"];
  const auto table = noncanonical_pairs(pieces, vocab);
  std::set<std::pair<TokenId, TokenId>> found, expected;
  for (TokenId p = 0; p < vocab; ++p)
    for (TokenId c = 0; c < vocab; ++c)
      if (is_marked(table, vocab, p, c)) found.emplace(p, c);
  for (const auto& pair : told["impossible_pairs"]) expected.emplace(pair[0], pair[1]);
  EXPECT_EQ(found, expected);
}

TEST(NoncanonicalPairs, AreThoseThatAMergeWouldJoin) {
  EXPECT_EQ(pairs_of({"a", "b", "ab"}), (Pairs{{"a", "b"}}));
  // In "abc" the merge of b and c comes first; "ab" then never ends a token before c.
  EXPECT_EQ(pairs_of({"a", "b", "c", "bc", "ab"}), (Pairs{{"a", "b"}, {"b", "c"}, {"ab", "c"}}));
  // Here that of a and b does.
  EXPECT_EQ(pairs_of({"a", "b", "c", "ab", "bc"}), (Pairs{{"a", "b"}, {"a", "bc"}, {"b", "c"}}));
}

TEST(NoncanonicalPairs, OfOverlappingMergesOfEqualRankTheLeftmostIsMade) {
  // aaa is aa, a.
  EXPECT_EQ(pairs_of({"a", "aa"}), (Pairs{{"a", "a"}, {"a", "aa"}}));
}

TEST(NoncanonicalPairs, FollowRanksNotIds) {
  std::vector<RankedPiece> pieces = in_order({"a", "b", "c", "ab", "bc"});
  pieces[3] = {.bytes = "ab", .id = 9, .rank = 30};
  pieces[4] = {.bytes = "bc", .id = 20, .rank = 7};
  EXPECT_EQ(pairs_of_pieces(pieces), (Pairs{{"a", "b"}, {"b", "c"}, {"ab", "c"}}));
}

TEST(NoncanonicalPairs, NeedAWordThatMayHoldBoth) {
  // Spaces, and other characters before letters, are apart; a letter and a number are not.
  EXPECT_EQ(pairs_of({" ", "\n", "  ", "\n "}), Pairs{});
  EXPECT_EQ(pairs_of({".", "a", ".a"}), Pairs{});
  EXPECT_TRUE(pairs_of({"1", "a", "1a"}).contains({"1", "a"}));
  EXPECT_EQ(pairs_of({" ", "a", " a"}), (Pairs{{" ", "a"}}));
}

TEST(NoncanonicalPairs, EndWhereAContractionEndsAWord) {
  const auto found = pairs_of({"'", "s", "t", "-", "'s", "st", "-'s", "'st", "t's", "t'st"});
  EXPECT_FALSE(found.contains({"'s", "t"}));
  EXPECT_FALSE(found.contains({"t's", "t"}));
  EXPECT_TRUE(found.contains({"s", "t"}));
  // No letter or number stands before the apostrophe.
  EXPECT_TRUE(pairs_of({"'", "s", "t", "-", "'s", "-'s", "-'st"}).contains({"-'s", "t"}));
}

TEST(NoncanonicalPairs, NeverBeginInsideACharacter) {
  // \xc3\xa9 is é, and \xc3 may stand before another byte.
  EXPECT_EQ(pairs_of({"a", "\xc3", "\xa9", "\xc3\xa9", "a\xc3\xa9", "a\xc3"}),
            (Pairs{{"a", "\xc3\xa9"}}));
}

TEST(NoncanonicalPairs, LeaveOtherIdsWithoutBits) {
  const auto pieces = in_order({"a", "b", "ab"});
  const auto table = noncanonical_pairs(pieces, 11);
  ASSERT_EQ(table.size(), 22u);
  for (std::size_t i = 0; i < table.size(); ++i) EXPECT_EQ(table[i], i == 0 ? 2 : 0) << i;
}

}  // namespace
}  // namespace tg
