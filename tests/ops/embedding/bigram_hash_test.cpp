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

// Rows of the script of the speedrun's record of 2026-08-01; 377279·27191 wraps.
struct Row {
  std::vector<std::int64_t> ids, hash, signs;
  std::int64_t rows = 377280;
};
const Row kRecordRows[] = {
    {{50256, 464, 2068, 7586, 50256, 11, 0, 0},
     {377279, 86771, 28822, 182963, 196131, 139529, 299101, 0},
     {0, 1408, 2500, 5558, 6642, 1115, 11, 0}},
    {{11, 50255, 50256, 1, 2, 3, 50256, 50256},
     {377279, 253687, 368544, 35983, 94597, 97765, 101274, 33688},
     {0, 1092, 31, 1105, 3, 1, 1107, 0}},
    {{0, 0, 0, 5, 40000, 12345, 777, 31415},
     {377279, 330959, 0, 181565, 237724, 10118, 122466, 275527},
     {0, 0, 0, 5, 7237, 3193, 4912, 6590}},
    {{499, 3, 17, 499, 498, 0, 0}, {999, 289, 798, 233, 193, 672, 0}, {}, 1000}};

TEST(BigramHashInPlace, GivesTheRowsOfRecord89) {
  for (const auto& [ids, hash, signs, rows] : kRecordRows) {
    EXPECT_TRUE(test::is_same(bigram_hash_in_place(row_of(ids), rows), row_of(hash)));
    if (!signs.empty()) {
      EXPECT_TRUE(test::is_same(bigram_sign_rows(row_of(ids), 8192), row_of(signs)));
    }
  }
}

TEST(BigramHashInPlace, DiffersFromTheHashInTheSecondTokenOfEachRowAlone) {
  const auto ids = test::integers({3, 50}, 50304, 3);
  const auto before = ids.clone();
  const auto hash = bigram_hash(ids, 1536), in_place = bigram_hash_in_place(ids, 1536);
  EXPECT_TRUE(test::is_same(ids, before));
  const auto same = hash.eq(in_place);
  EXPECT_TRUE(same.slice(1, 0, 1).all().item<bool>());
  EXPECT_FALSE(same.select(1, 1).any().item<bool>());
  EXPECT_TRUE(same.slice(1, 2).all().item<bool>());
}

TEST(BigramHashInPlace, ASingleTokenIsARowStart) {
  EXPECT_TRUE(test::is_same(bigram_hash_in_place(row_of({42}), 100), row_of({99})));
  EXPECT_TRUE(test::is_same(bigram_sign_rows(row_of({42}), 100), row_of({0})));
}

}  // namespace
}  // namespace tg
