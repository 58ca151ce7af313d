#include "ops/quantize/lqer.h"

#include "tests/ops/quantize/quantize_fixture.h"

namespace tg {
namespace {

using test::quantize_fixture;

void expect_same(const QuantizedWeight& found, const QuantizedWeight& expected) {
  EXPECT_TRUE(test::is_same(found.q, expected.q));
  EXPECT_TRUE(test::is_same(found.scale, expected.scale));
}
void expect_same(const LowRank& found, const LowRank& expected) {
  EXPECT_EQ(found.asymmetric, expected.asymmetric);
  expect_same(found.a, expected.a);
  expect_same(found.b, expected.b);
}

TEST(Lqer, FactorsHaveTheReferenceImplementationsBits) {
  const auto &a = quantize_fixture("lqer.a"), &b = quantize_fixture("lqer.b");
  const auto factor = [](const std::string& name) {
    return QuantizedWeight{quantize_fixture(name), quantize_fixture(name + "_scale")};
  };
  auto asymmetric_a = factor("asymmetric.a");
  asymmetric_a.scale = asymmetric_a.scale.squeeze(0);  // 0-dim in a file
  expect_same(quantize_factors(a, b, {.asymmetric = true, .group = 64}),
              {true, asymmetric_a, factor("asymmetric.b")});
  expect_same(quantize_factors(a, b, {.bits = 4, .asymmetric = false}),
              {false, factor("symmetric.a"), factor("symmetric.b")});
}

// Tall, wide, square, one row; a rank larger than the matrix has. The singular values are distinct,
// because the vectors of equal ones are not unique.
TEST(Lqer, FactorsAreThoseOfTheSvd) {
  std::uint64_t seed = 0;
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {80, 32}, {32, 96}, {48, 48}, {1, 64}, {64, 16}}) {
    const auto error = test::normal({rows, columns}, ++seed, at::kFloat) *
                       at::linspace(0.1, 1, columns, at::kFloat);
    for (const bool asymmetric : {false, true}) {
      const LqerOptions options{.rank = 4, .asymmetric = asymmetric, .group = 32};
      auto [u, s, vh] = at::linalg_svd(error.to(at::kDouble), /*full_matrices=*/false);
      const auto r = std::min({rows, columns, std::int64_t{4}});
      auto a = u.slice(1, 0, r) * s.slice(0, 0, r), b = vh.slice(0, 0, r);
      const auto sign = b.gather(1, b.abs().argmax(1, true)).sign();
      a = a * sign.t(), b = b * sign;
      const auto found = low_rank_of(error, options);
      SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", " << asymmetric);
      expect_same(found, quantize_factors(a.to(at::kFloat), b.to(at::kFloat), options));
      EXPECT_EQ(found.asymmetric, asymmetric);
    }
  }
}

TEST(Lqer, DequantizesToTheProductOfTheFactors) {
  const QuantizedWeight a{test::tensor_of({1, -2, 0, 1}, {2, 2}, at::kChar),
                          test::tensor_of({0.5}, {}, at::kHalf)},
      b{test::tensor_of({7, -8, 1, 2}, {2, 2}, at::kChar), test::tensor_of({1, 2}, {2}, at::kHalf)};
  // A = .5·[1 −2; 0 1], B = [7 −8; 2 4].
  EXPECT_TRUE(test::is_same(dequantize(LowRank{true, a, b}),
                            test::tensor_of({1.5, -8, 1, 2}, {2, 2}, at::kFloat)));
  const QuantizedWeight by_rows{a.q, test::tensor_of({0.5, 4}, {2}, at::kHalf)};
  EXPECT_TRUE(test::is_same(dequantize(LowRank{false, by_rows, b}),
                            test::tensor_of({1.5, -8, 8, 16}, {2, 2}, at::kFloat)));
  const auto low = test::normal({40, 3}, 1).matmul(test::normal({3, 64}, 2)).to(at::kFloat);
  const auto back = dequantize(low_rank_of(low, {.bits = 8, .asymmetric = false}));
  EXPECT_LT((back - low).norm().item<double>(), 0.02 * low.norm().item<double>());
}

TEST(Lqer, AGroupThatDoesNotDivideBGivesScalesByRows) {
  const auto error = test::normal({12, 31}, 1, at::kFloat);
  expect_same(low_rank_of(error, {.group = 64}), low_rank_of(error, {.asymmetric = false}));
}

TEST(Lqer, NoErrorHasNoCorrection) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{40, 16}, {16, 64}}) {
    for (const bool asymmetric : {false, true}) {
      const auto zero = at::zeros(shape);
      const auto found = low_rank_of(zero, {.asymmetric = asymmetric, .group = 64});
      EXPECT_TRUE(test::is_same(dequantize(found), zero));
      EXPECT_GT(found.a.scale.min().item<double>(), 0);
      EXPECT_GT(found.b.scale.min().item<double>(), 0);
    }
  }
}

}  // namespace
}  // namespace tg
