// The MLP on a GPU against fp64. Skipped where there is no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ops/fused.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

struct Case {
  std::int64_t rows, dim, hidden;
  double slope;
  bool supported = true;  // by the kernels of Hopper GPUs
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
      return (at::randn({rows, columns}, at::kCUDA) * scale).to(c.dtype);
    };
    x = matrix(c.rows, c.dim, 1);
    dy = matrix(c.rows, c.dim, 1);
    up = matrix(c.hidden, c.dim, 1 / std::sqrt(static_cast<double>(c.dim)));
    down = matrix(c.dim, c.hidden, 1 / std::sqrt(static_cast<double>(c.hidden)));
  }
  Results run(double slope) const {
    const auto gradient_of = [](const at::Tensor& w) { return at::zeros_like(w, at::kFloat); };
    const Weight up_weight{up, gradient_of(up)}, down_weight{down, gradient_of(down)};
    const auto in = x.detach().set_requires_grad(true);
    const auto y = mlp(in, up_weight, down_weight, slope);
    y.backward(dy);
    return {y.detach(), in.grad(), up_weight.gradient, down_weight.gradient};
  }
  Results exact(double slope) const {
    const auto x64 = x.to(at::kDouble), dy64 = dy.to(at::kDouble);
    const auto up64 = up.to(at::kDouble), down64 = down.to(at::kDouble);
    const auto pre = at::mm(x64, up64.t());
    const auto u = at::where(pre > 0, pre, slope * pre);
    const auto d_pre = at::mm(dy64, down64) * 2 * u * at::where(pre > 0, 1.0, slope);
    return {at::mm(u.square(), down64.t()), at::mm(d_pre, up64), at::mm(d_pre.t(), x64),
            at::mm(dy64.t(), u.square())};
  }

  at::Tensor x, dy, up, down;
};

// The largest relative error of a row: detects a wrong tile, row or column.
double worst_row(const at::Tensor& found, const at::Tensor& exact) {
  const auto off = (found.to(at::kDouble) - exact).norm(2, 1);
  return (off / (exact.norm(2, 1) + 1e-30)).max().item<double>();
}

TEST_P(MlpGpu, MatchesTheReferenceInFp64) {
  const auto c = GetParam();
  make(c);
  const auto found = run(c.slope), right = exact(c.slope);
  const bool fused = c.supported && use_hopper_kernels(x);
  // Two roundings to bf16, of at most 2^-8 each, before each result; separate operations have two
  // more, of which the square doubles one.
  const double tolerance = c.dtype != at::kBFloat16 ? 1e-5 : fused ? 2.0 / 256 : 5.0 / 256;
  EXPECT_LE(worst_row(found.y, right.y), tolerance);
  EXPECT_LE(worst_row(found.dx, right.dx), tolerance);
  EXPECT_LE(worst_row(found.d_up, right.d_up), tolerance);
  EXPECT_LE(worst_row(found.d_down, right.d_down), tolerance);

  const at::NoGradGuard no_grad;
  const auto separate = linear(leaky_relu_squared(linear(x, {up, {}}), c.slope), {down, {}});
  EXPECT_EQ(at::equal(found.y, separate), !fused) << "not the path that was meant";
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
  EXPECT_TRUE(at::equal(mlp(x, {up, {}}, {down, {}}, c.slope), first.y));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MlpGpu,
    ::testing::Values(Case{98304, 512, 1536, 0.5},      // the recipes'
                      Case{65536, 768, 3072, 0},        //
                      Case{1, 64, 192, 0.5},            // one row
                      Case{300, 128, 256, 0.5},         // partial tiles in every dimension
                      Case{1111, 72, 200, 0.5},         //
                      Case{9000, 520, 1000, 0.25},      //
                      Case{1000, 128, 384, -1.5},       // slopes of either sign
                      Case{1001, 128, 384, -1},         //
                      Case{1002, 128, 384, -0.25},      //
                      Case{1003, 128, 384, 0},          //
                      Case{1004, 128, 384, 1},          //
                      Case{1005, 128, 384, 1.5},        //
                      Case{257, 100, 304, 0.5, false},  // rows that TMA does not support
                      Case{257, 128, 300, 0.5, false},  //
                      Case{513, 96, 384, 0.5, false, at::kFloat},
                      Case{514, 96, 384, -0.5, false, at::kFloat}),
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
  const auto unit = at::eye(kWidth, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
  const auto random = [&] { return at::randn({kRows, kWidth}, at::kCUDA).to(at::kBFloat16); };
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
  // A rounding is at most 2^-8; that of the activation is halved by the square root.
  EXPECT_LE(worst(y.detach(), exact_x.square() * factor), 1.01 / 256);
  EXPECT_LE(worst(x.grad(), dy.to(at::kDouble) * 2 * exact_x * factor), 1.52 / 256);
}

}  // namespace
}  // namespace tg
