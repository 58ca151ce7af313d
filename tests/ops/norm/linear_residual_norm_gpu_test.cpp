// Tests ops/norm/linear_residual_norm.h on a GPU against fp64, and compares it with linear() and
// residual_norm().
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/fused.h"
#include "ops/kernels.h"
#include "ops/norm/linear_residual_norm.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"
#include "tests/ops/worst_row.h"

namespace tg {
namespace {

struct Case {
  std::int64_t rows, in_width, width;
  std::int64_t padding = 0;  // channels excluded from the mean
};

struct Results {
  at::Tensor x, normed, d_in, dx, d_weight;
  at::Tensor delta_parts;  // [in_width / 64, rows]; undefined if in_width is not a multiple of 64
};

class LinearResidualNormGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    const auto& c = GetParam();
    const auto tensor = [](at::IntArrayRef shape, std::uint64_t seed) {
      return test::normal(shape, seed, at::kBFloat16).to(test::kGpu);
    };
    in = tensor({1, c.rows, c.in_width}, 1);
    x = tensor({1, c.rows, c.width}, 2);
    weight = tensor({c.width, c.in_width}, 3) / std::sqrt(static_cast<double>(c.in_width));
    d_x = tensor({1, c.rows, c.width}, 4);
    d_normed = tensor({1, c.rows, c.width}, 5);
    for (const auto& padded : {x, d_x, d_normed})
      padded.narrow(2, c.width - c.padding, c.padding).zero_();
    weight.narrow(0, c.width - c.padding, c.padding).zero_();
  }

  // `d_normed` is the gradient of the normed rows; the gradient passed for y is d_normed times
  // row_scale, as NormedInput requires.
  Results run() const {
    const auto in_leaf = in.detach().set_requires_grad(true),
               x_leaf = x.detach().set_requires_grad(true);
    const Weight projection{weight, at::zeros_like(weight, at::kFloat)};
    const auto passed = std::make_shared<PassedGradients>();
    passed->takes_delta = in.size(-1) % 64 == 0;
    const auto out = linear_residual_norm(
        in_leaf, projection, x_leaf, norm(), passed,
        choose_linear_residual_norm(x_leaf, projection, NormedForm::deferred_scale));
    EXPECT_TRUE(out.y.row_scale().defined());
    const auto scale = out.y.row_scale().view({1, -1, 1});
    const auto gradients = torch::autograd::grad({out.x, out.y.tensor()}, {in_leaf, x_leaf},
                                                 {d_x, (d_normed * scale).to(at::kBFloat16)});
    return {out.x.detach(),      out.x.detach().to(at::kDouble) * scale,
            gradients[0],        gradients[1],
            projection.gradient, passed->delta};
  }
  static NormOptions norm() {
    return {.scale = kNormScale,
            .channels = GetParam().width - GetParam().padding,
            .form = NormedForm::deferred_scale};
  }
  Results exact() const {
    const auto leaf = [](const at::Tensor& tensor) {
      return tensor.cpu().to(at::kDouble).detach().set_requires_grad(true);
    };
    const auto in64 = leaf(in), x64 = leaf(x), weight64 = leaf(weight);
    const auto sum = x64 + at::linear(in64, weight64);
    const auto channels = static_cast<double>(GetParam().width - GetParam().padding);
    const auto normed = kNormScale * sum *
                        ((sum * sum).sum(-1, /*keepdim=*/true) / channels + 1.1920929e-07).rsqrt();
    const auto gradients =
        torch::autograd::grad({sum, normed}, {in64, x64, weight64},
                              {d_x.cpu().to(at::kDouble), d_normed.cpu().to(at::kDouble)});
    return {sum.detach(), normed.detach(), gradients[0], gradients[1], gradients[2], {}};
  }

  static constexpr double kNormScale = 0.7;
  at::Tensor in, x, weight, d_x, d_normed;
};

// The relative error of a row whose elements were rounded once to bf16, by up to 2^-8 each: their
// root mean square is about 2^-8 / √3, a little more in short rows.
constexpr double kRounding = 0x1p-8 / 1.6;

TEST_P(LinearResidualNormGpu, SumNormAndGradientsAreTheFormulas) {
  if (!use_hopper_kernels(x)) GTEST_SKIP() << "no Hopper GPU";
  const auto found = run(), right = exact();
  EXPECT_EQ(found.x.scalar_type(), at::kBFloat16);
  EXPECT_LT(test::worst_row(found.x, right.x), kRounding);
  EXPECT_LT(test::worst_row(found.normed, right.normed), kRounding);
  // Rounds dx, the gradient of y before it, and x'.
  EXPECT_LT(test::worst_row(found.dx, right.dx), 2 * kRounding);
  EXPECT_LT(test::worst_row(found.d_in, right.d_in), 3 * kRounding);
  const auto& c = GetParam();
  const auto without_padding = [&](const at::Tensor& d) {
    return d.narrow(0, 0, c.width - c.padding);
  };
  // Compares the whole tensor: a channel's gradient may be small relative to the terms that cancel
  // in it.
  EXPECT_LT(test::worst_row(without_padding(found.d_weight).reshape({1, -1}),
                            without_padding(right.d_weight).reshape({1, -1})),
            3 * kRounding);
}

// The dots use the gradient as stored: attention's backward pass requires that its rounding error
// cancels.
TEST_P(LinearResidualNormGpu, DotsAreThoseOfTheInputAndItsRoundedGradient) {
  if (!use_hopper_kernels(x)) GTEST_SKIP() << "no Hopper GPU";
  const auto in_width = GetParam().in_width;
  const auto found = run();
  ASSERT_EQ(found.delta_parts.defined(), in_width % 64 == 0);
  if (!found.delta_parts.defined()) return;
  const auto products =
      (in.cpu().to(at::kDouble) * found.d_in.cpu().to(at::kDouble)).view({-1, in_width / 64, 64});
  const auto right = products.sum(-1).t(), magnitude = products.abs().sum(-1).t();
  ASSERT_EQ(found.delta_parts.sizes(), right.sizes());
  // 64 sums in fp32.
  const auto error = (found.delta_parts.cpu().to(at::kDouble) - right).abs();
  EXPECT_TRUE((error <= 0x1p-20 * magnitude).all().item<bool>())
      << (error / magnitude).max().item<double>();
}

TEST_P(LinearResidualNormGpu, EqualsTheSeparateOperations) {
  if (!use_hopper_kernels(x)) GTEST_SKIP() << "no Hopper GPU";
  const auto fused = run();
  const Weight projection{weight, {}};
  const at::NoGradGuard no_grad;
  const auto separate = residual_norm({{.tensor = x}, {.tensor = linear(in, projection)}}, norm());
  EXPECT_LT(test::worst_row(fused.x, separate.x.cpu().to(at::kDouble)), 2 * kRounding);
  const auto normed = separate.x.to(at::kDouble) * separate.y.row_scale().view({1, -1, 1});
  EXPECT_LT(test::worst_row(fused.normed, normed.cpu()), 2 * kRounding);
}

// The recipes' shapes with few and with many rows; partial tiles of rows, columns and K.
INSTANTIATE_TEST_SUITE_P(Shapes, LinearResidualNormGpu,
                         ::testing::Values(Case{128, 512, 512}, Case{300, 768, 768},
                                           Case{1, 64, 64}, Case{257, 72, 136},
                                           Case{130, 200, 200, 3}, Case{98304, 512, 512},
                                           Case{65536, 768, 768}),
                         [](const auto& tested) {
                           const auto& c = tested.param;
                           return fmt::format("{}x{}x{}{}", c.rows, c.in_width, c.width,
                                              c.padding == 0 ? "" : "_padded");
                         });

}  // namespace
}  // namespace tg
