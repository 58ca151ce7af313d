// Tests the MLP on a GPU against fp64. Skipped without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/fused.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/worst_row.h"

namespace tg {
namespace {

struct Case {
  std::int64_t rows, dim, hidden;
  double slope;
  bool supported = true;  // by the Hopper kernels
  bool scaled = false;    // has a row_scale
  at::ScalarType dtype = at::kBFloat16;
};

struct Results {
  at::Tensor y, dx, d_up, d_down;
};

class MlpGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  void make(const Case& c) {
    at::manual_seed(1);
    const auto matrix = [&](std::int64_t rows, std::int64_t columns, double scale) {
      return (at::randn({rows, columns}, test::kGpu) * scale).to(c.dtype);
    };
    x = matrix(c.rows, c.dim, 1);
    dy = matrix(c.rows, c.dim, 1);
    if (c.scaled) row_scale = at::rand({c.rows}, at::device(test::kGpu).dtype(at::kFloat)) + 0.5;
    up = matrix(c.hidden, c.dim, 1 / std::sqrt(static_cast<double>(c.dim)));
    down = matrix(c.dim, c.hidden, 1 / std::sqrt(static_cast<double>(c.hidden)));
  }
  Results run(double slope) const {
    const auto gradient_of = [](const at::Tensor& w) { return at::zeros_like(w, at::kFloat); };
    const Weight up_weight{up, gradient_of(up)}, down_weight{down, gradient_of(down)};
    const auto in = x.detach().set_requires_grad(true);
    const auto y = mlp(scaled(in), up_weight, down_weight, slope);
    y.backward(dy);
    return {.y = y.detach(),
            .dx = in.grad(),
            .d_up = up_weight.gradient,
            .d_down = down_weight.gradient};
  }
  NormedInput scaled(const at::Tensor& rows) const {
    return row_scale.defined() ? NormedInput::deferred_scale(rows, row_scale) : rows;
  }
  Results exact(double slope) const {
    const auto scale = row_scale.defined() ? row_scale.to(at::kDouble).unsqueeze(1)
                                           : at::ones({1, 1}, x.options().dtype(at::kDouble));
    const auto x64 = x.to(at::kDouble) * scale, dy64 = dy.to(at::kDouble);
    const auto up64 = up.to(at::kDouble), down64 = down.to(at::kDouble);
    const auto pre = at::mm(x64, up64.t());
    const auto u = at::where(pre > 0, pre, slope * pre);
    const auto d_pre = at::mm(dy64, down64) * 2 * u * at::where(pre > 0, 1.0, slope);
    return {.y = at::mm(u.square(), down64.t()),
            .dx = at::mm(d_pre, up64) * scale,
            .d_up = at::mm(d_pre.t(), x64),
            .d_down = at::mm(dy64.t(), u.square())};
  }

  at::Tensor x, dy, up, down, row_scale;
};

TEST_P(MlpGpu, MatchesTheReferenceInFp64) {
  const auto c = GetParam();
  make(c);
  const auto found = run(c.slope), right = exact(c.slope);
  const bool fused = c.supported && use_hopper_kernels(x);
  // Two roundings before each result; the unfused path has two more, one of which the square
  // doubles.
  const double rounding = c.dtype == at::kHalf ? 1.0 / 2048 : 1.0 / 256;
  const double tolerance = c.dtype == at::kFloat ? 1e-5 : fused ? 2 * rounding : 5 * rounding;
  EXPECT_LE(test::worst_row(found.y, right.y), tolerance);
  EXPECT_LE(test::worst_row(found.dx, right.dx), tolerance);
  EXPECT_LE(test::worst_row(found.d_up, right.d_up), tolerance);
  EXPECT_LE(test::worst_row(found.d_down, right.d_down), tolerance);

  const at::NoGradGuard no_grad;
  const auto separate =
      linear(leaky_relu_squared(linear(scaled(x), {up, {}}), c.slope), {down, {}});
  // A scale is applied before the activation, so that the normalized rows are not rounded.
  const bool rounds_alike = !fused && !(c.scaled && c.hidden % 8 == 0);
  EXPECT_EQ(at::equal(found.y, separate), rounds_alike) << "not the path that was meant";
}

TEST_P(MlpGpu, GivesTheSameBitsAgainAndWithoutGradients) {
  const auto c = GetParam();
  make(c);
  const auto first = run(c.slope), second = run(c.slope);
  EXPECT_TRUE(at::equal(first.y, second.y));
  EXPECT_TRUE(at::equal(first.dx, second.dx));
  EXPECT_TRUE(at::equal(first.d_up, second.d_up));
  EXPECT_TRUE(at::equal(first.d_down, second.d_down));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(mlp(scaled(x), {up, {}}, {down, {}}, c.slope), first.y));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MlpGpu,
    ::testing::Values(
        // The recipes' shapes.
        Case{.rows = 98304, .dim = 512, .hidden = 1536, .slope = 0.5},
        Case{.rows = 65536, .dim = 768, .hidden = 3072, .slope = 0},
        // One row.
        Case{.rows = 1, .dim = 64, .hidden = 192, .slope = 0.5},
        // Partial tiles in every dimension.
        Case{.rows = 300, .dim = 128, .hidden = 256, .slope = 0.5},
        Case{.rows = 1111, .dim = 72, .hidden = 200, .slope = 0.5},
        Case{.rows = 9000, .dim = 520, .hidden = 1000, .slope = 0.25},
        // Rows with a deferred scale, on Hopper and elsewhere.
        Case{.rows = 301, .dim = 128, .hidden = 256, .slope = 0.5, .scaled = true},
        Case{.rows = 1112, .dim = 72, .hidden = 200, .slope = 0.5, .scaled = true},
        Case{.rows = 258,
             .dim = 100,
             .hidden = 304,
             .slope = 0.5,
             .supported = false,
             .scaled = true},
        // Slopes of either sign.
        Case{.rows = 1000, .dim = 128, .hidden = 384, .slope = -1.5},
        Case{.rows = 1001, .dim = 128, .hidden = 384, .slope = -1},
        Case{.rows = 1002, .dim = 128, .hidden = 384, .slope = -0.25},
        Case{.rows = 1003, .dim = 128, .hidden = 384, .slope = 0},
        Case{.rows = 1004, .dim = 128, .hidden = 384, .slope = 1},
        Case{.rows = 1005, .dim = 128, .hidden = 384, .slope = 1.5},
        // Rows that TMA does not support.
        Case{.rows = 257, .dim = 100, .hidden = 304, .slope = 0.5, .supported = false},
        Case{.rows = 257, .dim = 128, .hidden = 300, .slope = 0.5, .supported = false},
        // fp16: a recipe's shape, partial tiles, slopes of either sign, and rows that TMA does not
        // support.
        Case{.rows = 98304, .dim = 512, .hidden = 1536, .slope = 0.5, .dtype = at::kHalf},
        Case{.rows = 1111, .dim = 72, .hidden = 200, .slope = 0.5, .dtype = at::kHalf},
        Case{.rows = 9000, .dim = 520, .hidden = 1000, .slope = -0.25, .dtype = at::kHalf},
        Case{.rows = 1003, .dim = 128, .hidden = 384, .slope = 0, .dtype = at::kHalf},
        Case{.rows = 257,
             .dim = 100,
             .hidden = 304,
             .slope = 0.5,
             .supported = false,
             .dtype = at::kHalf},
        // fp32 has no Hopper kernel.
        Case{.rows = 513,
             .dim = 96,
             .hidden = 384,
             .slope = 0.5,
             .supported = false,
             .dtype = at::kFloat},
        Case{.rows = 514,
             .dim = 96,
             .hidden = 384,
             .slope = -0.5,
             .supported = false,
             .dtype = at::kFloat}),
    [](const auto& tested) {
      const auto& c = tested.param;
      return fmt::format("{}x{}x{}_{}", c.rows, c.dim, c.hidden, c10::toString(c.dtype));
    });

class MlpElementsGpu : public test::OnGpu<> {};

// With identity matrices y is the activation and dx its gradient.
TEST_F(MlpElementsGpu, AreRoundedOnce) {
  constexpr std::int64_t kRows = 5000, kWidth = 328;
  const double slope = 0.5;
  at::manual_seed(1);
  const auto unit = at::eye(kWidth, at::TensorOptions(test::kGpu).dtype(at::kBFloat16));
  const auto random = [&] { return at::randn({kRows, kWidth}, test::kGpu).to(at::kBFloat16); };
  auto x = random().set_requires_grad(true);
  const auto dy = random();
  const auto gradient = [&] { return at::zeros_like(unit, at::kFloat); };
  const auto y = mlp(x, {unit, gradient()}, {unit, gradient()}, slope);
  y.backward(dy);

  const auto exact_x = x.detach().to(at::kDouble);
  const auto factor = at::where(exact_x > 0, 1.0, slope * slope);
  const auto worst = [](const at::Tensor& found, const at::Tensor& exact) {
    return ((found.to(at::kDouble) - exact).abs() / (exact.abs() + 1e-38)).max().item<double>();
  };
  // A rounding is at most 2^-8; the square root halves the activation's.
  EXPECT_LE(worst(y.detach(), exact_x.square() * factor), 1.01 / 256);
  EXPECT_LE(worst(x.grad(), dy.to(at::kDouble) * 2 * exact_x * factor), 1.52 / 256);
}

}  // namespace
}  // namespace tg
