#include "ops/embedding/bigram_hash.h"

#include "ops/attention/documents.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

at::Tensor row_of(const std::vector<std::int64_t>& ids) {
  return at::tensor(ids, at::kLong).unsqueeze(0);
}

// Multiplication wraps as with 32-bit integers, and the remainder is never negative.
std::int64_t hash_by_hand(std::int64_t now, std::int64_t before, std::int64_t rows) {
  const auto a = static_cast<std::int32_t>(36313u * static_cast<std::uint32_t>(now));
  const auto b = static_cast<std::int32_t>(27191u * static_cast<std::uint32_t>(before));
  const auto modulus = static_cast<std::int32_t>(rows - 1);
  const std::int32_t remainder = (a ^ b) % modulus;
  return remainder < 0 ? remainder + modulus : remainder;
}

TEST(BigramHash, GivesTheKnownExamples) {
  EXPECT_TRUE(test::is_same(bigram_hash(row_of({1, 5, 1023, 7, 7}), 1536),
                            row_of({1535, 892, 868, 1140, 1433})));
  EXPECT_TRUE(test::is_same(bigram_hash(row_of({3, 60000}), 1536), row_of({1535, 1121})));
}

TEST(BigramHash, WrapsAsInt32ForEveryTokenId) {
  for (const std::int64_t rows : {2, 1536, 2048, 50000}) {
    const auto ids = test::integers({4, 4096}, 65536, 1);
    const auto hash = bigram_hash(ids, rows).contiguous();
    const auto in = ids.accessor<std::int64_t, 2>();
    const auto out = hash.accessor<std::int64_t, 2>();
    for (int b = 0; b < 4; ++b) {
      ASSERT_EQ(out[b][0], rows - 1) << "row starts reset the hash";
      for (int t = 1; t < 4096; ++t) {
        ASSERT_EQ(out[b][t], hash_by_hand(in[b][t], in[b][t - 1], rows))
            << in[b][t - 1] << " then " << in[b][t] << " of " << rows << " rows";
      }
    }
  }
}

TEST(BigramHash, BeginsAnewWithADocument) {
  const auto ids = test::integers({2, 6}, 65536, 2);
  const auto begins = test::tensor_of({0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 6}, at::kBool);
  const auto hash = bigram_hash(ids, 1536, documents_in(begins, at::kCPU).ends);
  for (const auto& [row, begin, end] : {std::array{0, 0, 2}, {0, 2, 3}, {0, 3, 6}, {1, 0, 6}}) {
    const auto part = [&](const at::Tensor& whole) {
      return whole.narrow(0, row, 1).slice(1, begin, end);
    };
    EXPECT_TRUE(test::is_same(part(hash), bigram_hash(part(ids), 1536))) << row << " " << begin;
  }
}

TEST(BigramHash, ASingleTokenIsARowStart) {
  EXPECT_TRUE(test::is_same(bigram_hash(row_of({42}), 100), row_of({99})));
}

}  // namespace
}  // namespace tg
