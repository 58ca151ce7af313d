#include "ops/embedding/smear.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr std::int64_t kBos = 1;

// Two rows; documents begin inside both, and at the beginning of the second.
at::Tensor some_ids() {
  return test::tensor_of({5, 2, kBos, 3, 4, kBos, 6, 7, kBos, kBos}, {2, 5}, at::kLong);
}

TEST(GatedSmear, AddsAGatedShareOfTheTokenBeforeWithinADocument) {
  const auto x = test::normal({2, 5, 3}, 1), weight = test::normal({1, 2}, 2);
  const double lambda = 0.7;
  const auto ids = some_ids();
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 5; ++t) {
      double dot = 0;
      for (int w = 0; w < 2; ++w) dot += (weight[0][w] * x[b][t][w]).item<double>();
      const bool begins = t == 0 || ids[b][t].item<std::int64_t>() == kBos;
      const double share = begins ? 0 : lambda / (1 + std::exp(-dot));
      for (int d = 0; d < 3; ++d) {
        const double before = begins ? 0 : x[b][t - 1][d].item<double>();
        expected.push_back(x[b][t][d].item<double>() + share * before);
      }
    }
  }
  const auto y = gated_smear(x, ids, {weight, test::tensor_of({lambda}, {1}), kBos});
  EXPECT_TRUE(test::is_close(y, test::tensor_of(expected, {2, 5, 3}), 1e-13, 1e-15));
}

TEST(GatedSmear, ChangesNothingWithoutALambdaOrATokenBefore) {
  const auto x = test::normal({2, 5, 4}, 3, at::kBFloat16);
  const auto weight = test::normal({1, 4}, 4, at::kFloat);
  EXPECT_TRUE(test::is_same(gated_smear(x, some_ids(), {weight, at::zeros({1}), kBos}), x));
  const auto first = x.narrow(1, 0, 1);
  const auto ids = some_ids().narrow(1, 0, 1);
  EXPECT_TRUE(test::is_same(gated_smear(first, ids, {weight, at::ones({1}), kBos}), first));
}

TEST(GatedSmear, GradientIsRight) {
  const auto smeared = [](const at::Tensor& x, const at::Tensor& weight, const at::Tensor& lambda) {
    return gated_smear(x, some_ids(), {weight, lambda, kBos});
  };
  const auto x = test::normal({2, 5, 3}, 5), lambda = test::normal({1}, 6);
  for (const std::int64_t window : {1, 2, 3}) {
    EXPECT_TRUE(test::gradient_is_right(smeared, x, test::normal({1, window}, 7), lambda))
        << window;
  }
}

}  // namespace
}  // namespace tg
