#include "ops/embedding/token_embedding.h"

#include "ops/attention/documents.h"
#include "ops/embedding/smear.h"
#include "ops/norm/rms_norm.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

TEST(TokenEmbedding, EqualsTheFormula) {
  constexpr std::int64_t kBatch = 2, kLength = 4, kWidth = 3;
  const auto table = test::normal({6, kWidth}, 1), gate = test::normal({kWidth}, 2);
  const auto bigram = test::normal({kBatch, kLength, kWidth}, 3);
  const auto ids = test::integers({kBatch, kLength}, 6, 4);
  const double scale = 0.7;
  const auto y = token_embedding({.table_vd = table,
                                  .ids_bt = ids,
                                  .bigram_btd = bigram,
                                  .bigram_scale = test::tensor_of({scale}, {}),
                                  .smear_gate_d = gate});
  for (std::int64_t b = 0; b < kBatch; ++b) {
    auto before = at::zeros({kWidth}, at::kDouble);
    for (std::int64_t t = 0; t < kLength; ++t) {
      const auto sum = table[ids[b][t].item<std::int64_t>()] + scale * bigram[b][t];
      const auto r = sum / std::sqrt(sum.square().mean().item<double>() + 1.1920929e-07);
      for (std::int64_t d = 0; d < kWidth; ++d) {
        const double share = 1 / (1 + std::exp(-gate[d].item<double>()));
        const double expected =
            (1 - share) * r[d].item<double>() + share * before[d].item<double>();
        EXPECT_NEAR(y[b][t][d].item<double>(), expected, 1e-12);
      }
      before = r;
    }
  }
}

TEST(TokenEmbedding, GradientIsRightWithAndWithoutItsParts) {
  const auto ids = test::integers({2, 4}, 6, 5);
  const auto table = test::normal({6, 3}, 6), bigram = test::normal({2, 4, 3}, 7);
  const auto scale = test::normal({}, 8), gate = test::normal({3}, 9);
  const auto all = [&](const at::Tensor& table_vd, const at::Tensor& bigram_btd,
                       const at::Tensor& bigram_scale, const at::Tensor& smear_gate_d) {
    return token_embedding({.table_vd = table_vd,
                            .ids_bt = ids,
                            .bigram_btd = bigram_btd,
                            .bigram_scale = bigram_scale,
                            .smear_gate_d = smear_gate_d});
  };
  EXPECT_TRUE(test::gradient_is_right(all, table, bigram, scale, gate));
  const auto table_alone = [&](const at::Tensor& table_vd) {
    return token_embedding({.table_vd = table_vd,
                            .ids_bt = ids,
                            .bigram_btd = {},
                            .bigram_scale = {},
                            .smear_gate_d = {}});
  };
  EXPECT_TRUE(test::gradient_is_right(table_alone, table));
}

TEST(TokenEmbedding, SmearsWithinDocuments) {
  const auto table = test::normal({6, 3}, 1), gate = test::normal({3}, 2);
  const auto ids = test::integers({2, 4}, 6, 3);
  TokenEmbedding embedding{
      .table_vd = table, .ids_bt = ids, .bigram_btd = {}, .bigram_scale = {}, .smear_gate_d = gate};
  const auto begins = test::tensor_of({0, 0, 0, 1, 0, 1, 0, 0}, {2, 4}, at::kBool);
  embedding.document_ends_bt = documents_in(begins, at::kCPU).ends;
  const auto expected =
      smear(rms_norm(at::embedding(table, ids)), gate, embedding.document_ends_bt);
  EXPECT_TRUE(test::is_close(token_embedding(embedding), expected, 1e-13, 1e-15));
}

TEST(TokenEmbedding, AGatedSmearComesBeforeTheNorm) {
  const auto table = test::normal({6, 3}, 1), bigram = test::normal({2, 4, 3}, 2);
  const auto weight = test::normal({1, 2}, 3), lambda = test::normal({1}, 4);
  const auto ids = test::integers({2, 4}, 6, 5);
  TokenEmbedding embedding{.table_vd = table,
                           .ids_bt = ids,
                           .bigram_btd = bigram,
                           .bigram_scale = test::tensor_of({0.7}, {}),
                           .smear_gate_d = {}};
  embedding.gated_smear = {weight, lambda, /*bos_id=*/2};
  const auto sum = at::embedding(table, ids) + 0.7 * bigram;
  const auto expected = rms_norm(gated_smear(sum, ids, embedding.gated_smear));
  EXPECT_TRUE(test::is_close(token_embedding(embedding), expected, 1e-13, 1e-15));
}

}  // namespace
}  // namespace tg
