#include "ops/quantize/fake_quant.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

TEST(FakeQuant, RoundsHalvesToEven) {
  // The row's largest value is 31, so the step size is exactly 1.
  const auto w = test::tensor_of({31, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 7.4999, 7.5001}, {1, 9});
  EXPECT_TRUE(
      test::is_same(fake_quant(w, -31), test::tensor_of({31, 0, 2, 2, 0, -2, -2, 7, 8}, {1, 9})));
}

TEST(FakeQuant, ScalesEachRowByItsLargestValue) {
  const auto w = test::normal({2, 3, 16}, 1) * 4;
  const auto expected = [&] {
    auto values = test::values_of(w);
    for (std::size_t row = 0; row < values.size(); row += 16) {
      double largest = 0;
      for (std::size_t j = 0; j < 16; ++j) largest = std::max(largest, std::abs(values[row + j]));
      const double scale = std::max(largest / 31, 1.0 / 31);
      for (std::size_t j = 0; j < 16; ++j) {
        values[row + j] = std::nearbyint(values[row + j] / scale) * scale;
      }
    }
    return test::tensor_of(values, w.sizes());
  }();
  EXPECT_TRUE(test::is_close(fake_quant(w, -31), expected, 1e-12, 1e-15));
}

TEST(FakeQuant, SmallRowsHaveAFloorUnderTheirScale) {
  const double step = 1.0 / 31;  // as if the largest value were 1
  const auto w = test::tensor_of({0.01, -0.02, 0.1, 0}, {1, 4});
  EXPECT_TRUE(test::is_close(fake_quant(w, -31), test::tensor_of({0, -step, 3 * step, 0}, {1, 4}),
                             1e-12, 1e-16));
  const auto zero = at::zeros({2, 3}, at::kDouble);
  EXPECT_TRUE(test::is_same(fake_quant(zero, -31), zero));
}

TEST(FakeQuant, ClampsToItsLevels) {
  // The largest magnitude of a row maps to level ±31, so level −32 is never used.
  const auto w = test::tensor_of({-62, 62, 10, -10}, {1, 4});
  const auto same = test::tensor_of({-62, 62, 10, -10}, {1, 4});
  EXPECT_TRUE(test::is_close(fake_quant(w, -31), same, 1e-12, 0));
  EXPECT_TRUE(test::is_close(fake_quant(w, -32), same, 1e-12, 0));
  EXPECT_TRUE(
      test::is_close(fake_quant(w, -3), test::tensor_of({-6, 62, 10, -6}, {1, 4}), 1e-12, 1e-12));
}

TEST(FakeQuant, GradientPassesStraightThrough) {
  const auto w = test::normal({3, 8}, 2).set_requires_grad(true), dy = test::normal({3, 8}, 3);
  (fake_quant(w, -31) * dy).sum().backward();
  EXPECT_TRUE(test::is_same(w.grad(), dy));
}

}  // namespace
}  // namespace tg
