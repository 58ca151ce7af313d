#include "ops/embedding/embedding_lookup.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

TEST(EmbeddingLookup, TakesTheRowsOfItsIds) {
  const auto table = test::normal({7, 3}, 1), ids = test::integers({2, 5}, 7, 2);
  const auto y = embedding_lookup(table, ids);
  ASSERT_EQ(y.sizes(), (at::IntArrayRef{2, 5, 3}));
  const auto at_ids = ids.accessor<std::int64_t, 2>();
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 5; ++t) EXPECT_TRUE(test::is_same(y[b][t], table[at_ids[b][t]]));
  }
}

TEST(EmbeddingLookup, GradientSumsTheRowsOfAnId) {
  const auto dy = test::normal({2, 5, 3}, 3), ids = test::integers({2, 5}, 4, 4);
  auto expected = at::zeros({7, 3}, at::kDouble);
  for (int i = 0; i < 10; ++i) expected[ids.flatten()[i].item<std::int64_t>()] += dy[i / 5][i % 5];
  EXPECT_TRUE(test::is_close(embedding_gradient(dy, ids, 7), expected, 1e-14, 1e-14));
}

TEST(EmbeddingLookup, GradientAccumulatesWhereAskedToAndAutogradGetsNone) {
  const auto table = test::normal({7, 3}, 1, at::kBFloat16).set_requires_grad(true);
  const auto ids = test::integers({2, 5}, 4, 4);
  const auto sum = test::normal({9, 3}, 2, at::kFloat);
  auto expected = sum.clone();
  for (const std::uint64_t seed : {3, 4}) {
    const auto dy = test::normal({2, 5, 3}, seed, at::kBFloat16);
    const auto y = embedding_lookup(table, ids, sum);
    EXPECT_TRUE(test::is_same(y, at::embedding(table, ids)));
    y.backward(dy);
    expected.slice(0, 0, 7).add_(embedding_gradient(dy, ids, 7));
  }
  EXPECT_TRUE(test::is_same(sum, expected));
  EXPECT_FALSE(table.grad().defined());
}

TEST(EmbeddingLookup, GradientIsRight) {
  const auto ids = test::integers({2, 5}, 7, 5);
  const auto f = [&](const at::Tensor& table) { return embedding_lookup(table, ids); };
  EXPECT_TRUE(test::gradient_is_right(f, test::normal({7, 3}, 6)));
}

TEST(EmbeddingLookup, IdsAreSortedOnceWithEqualOnesInTheirOrder) {
  const auto ids = at::tensor({5, 2, 5, 0, 2}, at::kLong);
  IdOrder order;
  const auto first = order.of(ids);
  EXPECT_TRUE(at::equal(first.ids, at::tensor({0, 2, 2, 5, 5}, at::kInt)));
  EXPECT_TRUE(at::equal(first.positions, at::tensor({3, 1, 4, 0, 2}, at::kLong)));
  EXPECT_TRUE(order.of(ids).ids.is_same(first.ids));
}

}  // namespace
}  // namespace tg
