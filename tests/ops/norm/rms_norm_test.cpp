#include "ops/norm/rms_norm.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

constexpr double kEpsilon = 1.1920929e-07;

at::Tensor closed_form(const at::Tensor& x) {
  const auto columns = static_cast<std::size_t>(x.size(-1));
  auto values = test::values_of(x);
  for (std::size_t row = 0; row < values.size(); row += columns) {
    double squares = 0;
    for (std::size_t j = 0; j < columns; ++j) squares += values[row + j] * values[row + j];
    const double root = std::sqrt(squares / static_cast<double>(columns) + kEpsilon);
    for (std::size_t j = 0; j < columns; ++j) values[row + j] /= root;
  }
  return test::tensor_of(values, x.sizes());
}

TEST(RmsNorm, DividesEachRowByItsRootMeanSquare) {
  const auto x = test::normal({3, 4, 64}, 1) * 3;
  // fp64 sums of 64 terms in another order: about 1e-15.
  EXPECT_TRUE(test::is_close(rms_norm(x), closed_form(x), 1e-13, 0));
  // fp32: a sum of 64 squares, a root and a quotient, each within about 2^-24.
  const auto single = x.to(at::kFloat);
  EXPECT_EQ(rms_norm(single).scalar_type(), at::kFloat);
  EXPECT_TRUE(test::is_close(rms_norm(single), closed_form(single), 1e-6, 0));
}

TEST(RmsNorm, RoundsHalfPrecisionOnceAtTheEnd) {
  const auto x = (test::normal({16, 512}, 2) * 5).to(at::kBFloat16);
  const auto y = rms_norm(x);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  // One rounding to bf16 is 2^-8 relative; a sum kept in bf16 would have a much larger error.
  EXPECT_TRUE(test::is_close(y, closed_form(x), 1.01 / 256, 0));
}

TEST(RmsNorm, EpsilonIsTheSameInEveryType) {
  // A mean square of 1e-8 is less than epsilon, which therefore determines the result.
  const auto x = test::normal({4, 32}, 3) * 1e-4;
  EXPECT_TRUE(test::is_close(rms_norm(x), closed_form(x), 1e-13, 0));
  EXPECT_TRUE(test::is_close(rms_norm(x.to(at::kFloat)), closed_form(x), 1e-6, 0));
  EXPECT_TRUE(test::is_close(rms_norm(x.to(at::kBFloat16)), closed_form(x.to(at::kBFloat16)),
                             1.01 / 256, 0));
  EXPECT_TRUE(test::is_same(rms_norm(at::zeros({2, 8})), at::zeros({2, 8})));
}

TEST(RmsNorm, PaddingCountsNowhere) {
  // Small enough that epsilon matters.
  const auto x = test::normal({4, 32}, 5) * 1e-3;
  const auto padded = at::constant_pad_nd(x, {0, 16});
  const auto expected = at::constant_pad_nd(closed_form(x), {0, 16});
  EXPECT_TRUE(test::is_close(rms_norm(padded, 32), expected, 1e-13, 0));
}

TEST(RmsNorm, GradientIsRight) {
  for (const std::int64_t channels : {0, 3}) {
    EXPECT_TRUE(test::gradient_is_right([&](const at::Tensor& x) { return rms_norm(x, channels); },
                                        test::normal({2, 3, 5}, 4)));
  }
}

}  // namespace
}  // namespace tg
