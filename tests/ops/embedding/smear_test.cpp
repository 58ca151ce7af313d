#include "ops/embedding/smear.h"

#include "ops/attention/documents.h"
#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

// Documents begin at these tokens, and at the beginning of each row.
at::Tensor ends_of(const std::vector<double>& begins, at::IntArrayRef shape) {
  return documents_in(test::tensor_of(begins, shape, at::kBool), at::kCPU).ends;
}

TEST(Smear, TakesAShareOfTheTokenBefore) {
  const auto x = test::normal({2, 5, 3}, 1), gate = test::normal({3}, 2);
  const auto xa = x.accessor<double, 3>();
  const auto ga = gate.accessor<double, 1>();
  std::vector<double> expected;
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 5; ++t) {
      for (int d = 0; d < 3; ++d) {
        const double share = 1 / (1 + std::exp(-ga[d]));
        const double before = t == 0 ? 0 : xa[b][t - 1][d];
        expected.push_back((1 - share) * xa[b][t][d] + share * before);
      }
    }
  }
  EXPECT_TRUE(test::is_close(smear(x, gate), test::tensor_of(expected, {2, 5, 3}), 1e-13, 1e-15));
}

TEST(Smear, FirstPositionsSeeZeroNotTheRowBefore) {
  const auto x = test::normal({3, 4, 2}, 3, at::kFloat);
  const auto y = smear(x, at::zeros({2}));  // a gate value of one half
  EXPECT_TRUE(test::is_same(y.select(1, 0), x.select(1, 0) * 0.5));
}

TEST(Smear, WorksInTheActivationsTypeAndOnSingleTokens) {
  const auto x = test::normal({2, 1, 4}, 4, at::kBFloat16);
  const auto y = smear(x, at::zeros({4}));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(test::is_same(y, x * 0.5));
}

TEST(Smear, ADocumentIsWhatItIsAlone) {
  const auto x = test::normal({2, 5, 3}, 7), gate = test::normal({3}, 8);
  const auto ends = ends_of({0, 1, 0, 0, 1, 0, 0, 0, 0, 0}, {2, 5});
  const auto y = smear(x, gate, ends);
  for (const auto& [row, begin, end] : {std::array{0, 0, 1}, {0, 1, 4}, {0, 4, 5}, {1, 0, 5}}) {
    const auto part = [&](const at::Tensor& whole) {
      return whole.narrow(0, row, 1).slice(1, begin, end);
    };
    EXPECT_TRUE(test::is_same(part(y), smear(part(x), gate))) << row << " " << begin;
  }
}

TEST(Smear, GradientIsRight) {
  const auto x = test::normal({2, 4, 3}, 5), gate = test::normal({3}, 6);
  for (const auto& ends : {at::Tensor(), ends_of({0, 0, 1, 1, 0, 0, 0, 0}, {2, 4})}) {
    const auto smeared = [&](const at::Tensor& x_btd, const at::Tensor& gate_d) {
      return smear(x_btd, gate_d, ends);
    };
    EXPECT_TRUE(test::gradient_is_right(smeared, x, gate));
  }
}

}  // namespace
}  // namespace tg
