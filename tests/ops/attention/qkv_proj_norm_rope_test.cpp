#include "ops/attention/projection/qkv_proj_norm_rope.h"

#include <gtest/gtest.h>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 9, kDim = 10, kHeads = 4, kKv = 2, kHeadDim = 6;

TEST(QkvProjNormRope, QueriesOfSomePositionsAreThoseOfAll) {
  const auto x = test::normal({kBatch, kTokens, kDim}, 1);
  const Weight weight{test::normal({(kHeads + 2 * kKv) * kHeadDim, kDim}, 2), {}};
  const QkvInputs in{.heads = kHeads,
                     .kv_heads = kKv,
                     .q_gain = test::normal({kHeads}, 3),
                     .value_embedding = test::normal({kBatch, kTokens, kKv * kHeadDim}, 4),
                     .value_residual = true,
                     .first_v = test::normal({kBatch, kTokens, kKv, kHeadDim}, 6),
                     .first_weight = test::normal({}, 5)};
  const auto table = make_rope_table(kTokens, {.dims = 4}, at::kDouble, at::kCPU);
  const auto all = qkv_proj_norm_rope(x, weight, in, table);
  for (const auto& [first, count] : {std::pair{6, 3}, {0, 2}, {4, 1}, {0, 9}}) {
    SCOPED_TRACE(count);
    const auto some = qkv_proj_norm_rope_of_queries(x, weight, in, table, first, count);
    EXPECT_TRUE(test::is_close(some.q, all.q.narrow(1, first, count), 0, 1e-12));
    EXPECT_TRUE(test::is_close(some.k, all.k, 0, 1e-12));
    EXPECT_TRUE(test::is_close(some.v, all.v, 0, 1e-12));
    EXPECT_TRUE(test::is_close(some.exclusive_v, all.exclusive_v, 0, 1e-12));
    EXPECT_TRUE(test::is_close(some.first_v, all.first_v, 0, 1e-12));
  }
}

}  // namespace
}  // namespace tg
