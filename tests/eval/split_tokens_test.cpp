#include "eval/scores/split_tokens.h"

#include <gtest/gtest.h>

#include "tests/data/listed_tokens.h"

namespace tg {
namespace {

using test::ListedTokens;
using test::Tokens;

TEST(SplitTokens, AreTheSameInBothWidths) {
  Tokens tokens;
  for (TokenId i = 0; i < 100; ++i) tokens.push_back(i % 9 == 0 ? 1 : 65'535 - i);
  const ListedTokens narrow(tokens), wide(tokens, sizeof(TokenId));
  ByteTable table{.base_bytes = std::vector<std::int16_t>(65'536, 3),
                  .leading_space = std::vector<std::uint8_t>(65'536, 0),
                  .boundary = std::vector<std::uint8_t>(65'536, 0)};
  table.base_bytes[1] = 0;
  const TextBytes bytes{.table = table};
  const SplitTokens one(narrow, 96, 8, &bytes, /*bos_id=*/1, at::kCPU);
  const SplitTokens other(wide, 96, 8, &bytes, /*bos_id=*/1, at::kCPU);
  const auto inputs = one.inputs(3, 5, 16, 7), others = other.inputs(3, 5, 16, 7);
  EXPECT_EQ(inputs.scalar_type(), at::kUInt16);
  EXPECT_EQ(others.scalar_type(), at::kUInt32);
  EXPECT_TRUE(inputs.to(at::kLong).equal(others.to(at::kLong)));
  const auto places = at::arange(0, 96, 5, at::kLong).view({4, 5});
  EXPECT_TRUE(one.gather(places).equal(other.gather(places)));
  EXPECT_EQ(other.gather(places).index({0, 1}).item<std::int64_t>(), 65'530);
  EXPECT_TRUE(one.segments(3, 5, 16, 7).equal(other.segments(3, 5, 16, 7)));
  EXPECT_TRUE(one.target_bytes(0, 4, 20, 20).equal(other.target_bytes(0, 4, 20, 20)));
}

TEST(SplitTokens, HoldIdsAbove16Bits) {
  const Tokens tokens{70'000, 128'255, 1'048'575, 5};
  const SplitTokens split(ListedTokens(tokens, sizeof(TokenId)), 3, 1, nullptr, {}, at::kCPU);
  EXPECT_TRUE(split.targets(0, 1, 3, 3)
                  .to(at::kLong)
                  .equal(at::tensor({128'255, 1'048'575, 5}, at::kLong).view({1, 3})));
  EXPECT_EQ(split.gather(at::tensor({2}, at::kLong)).item<std::int64_t>(), 1'048'575);
}

}  // namespace
}  // namespace tg
