#include "ops/quantize/gptq.h"

#include "tests/files/testing.h"
#include "tests/ops/quantize/quantize_fixture.h"

namespace tg {
namespace {

using test::quantize_fixture;
using test::random_hessian;

constexpr GptqOptions kInt6{.clip_sigmas = 12.85, .bits = 6};

GptqWeight quantized(const at::Tensor& weight, const at::Tensor& hessian,
                     const GptqOptions& options = kInt6) {
  return gptq(weight, factor_hessian(hessian, "w"), options, "w");
}

void expect_same(const QuantizedWeight& found, const QuantizedWeight& expected) {
  EXPECT_TRUE(test::is_same(found.q, expected.q));
  EXPECT_TRUE(test::is_same(found.scale, expected.scale));
}

// Sum of E·H·Eᵀ over the rows: the squared error on the inputs.
double output_error(const at::Tensor& w, const GptqWeight& weight, const at::Tensor& hessian) {
  const auto e = (w - dequantize(weight)).to(at::kDouble);
  return (e.matmul(hessian.to(at::kDouble)) * e).sum().item<double>();
}

// Two blocks of columns, three dead inputs.
TEST(Gptq, GivesTheReferenceImplementationsBits) {
  const auto& w = quantize_fixture("gptq.weight");
  const auto n = w.size(1);
  const auto triangle = at::tril_indices(n, n);
  auto hessian = at::zeros({n, n});
  hessian.index_put_({triangle[0], triangle[1]}, quantize_fixture("gptq.hessian"));
  hessian = hessian + hessian.tril(-1).t();
  const auto found = quantized(w, hessian, {.clip_sigmas = 4, .bits = 5, .zero_dead = true});
  expect_same(found.weight, {quantize_fixture("gptq.q"), quantize_fixture("gptq.scale")});
  EXPECT_EQ(found.bits, 5);
  EXPECT_FALSE(found.correction.has_value());
}

// The definition of a step, by the inverse of the remaining Hessian: the weights that are not yet
// rounded change such that the squared error on the inputs is smallest (Frantar et al. 2023,
// equation 2).
TEST(Gptq, EachRoundingIsAnsweredByTheBestChangeOfWhatIsLeft) {
  const auto w = test::normal({7, 150}, 1, at::kFloat), hessian = random_hessian(150, 2, {3, 149});
  auto zeroing = kInt6;
  zeroing.zero_dead = true;
  const auto found = quantized(w, hessian, zeroing);
  const auto factor = factor_hessian(hessian, "w");
  auto damped = hessian.to(at::kDouble).clone();
  damped.diagonal().masked_fill_(factor.dead, 1);
  damped.diagonal().add_(0.01 * damped.diagonal().mean());
  const auto h = damped.index_select(0, factor.order).index_select(1, factor.order);
  const auto scale = found.weight.scale.to(at::kDouble).unsqueeze(1);
  const auto left =
      w.to(at::kDouble).masked_fill(factor.dead, 0).index_select(1, factor.order).clone();
  auto q = at::empty_like(left);
  for (std::int64_t j = 0; j < 150; ++j) {
    const auto inverse = at::linalg_inv(h.slice(0, j).slice(1, j));
    const auto column = left.slice(1, j, j + 1);
    const auto rounded = (column / scale).round().clamp(-31, 31);
    q.slice(1, j, j + 1).copy_(rounded);
    left.slice(1, j).sub_((column - rounded * scale) * inverse.slice(0, 0, 1) / inverse[0][0]);
  }
  const auto expected = q.index_select(1, factor.order.argsort()).to(at::kChar);
  EXPECT_TRUE(test::is_same(found.weight.q, expected));
  EXPECT_TRUE(found.weight.q.select(1, 3).eq(0).all().item<bool>());
}

TEST(Gptq, CostsLessOnTheInputsThanRoundToNearest) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 64}, {40, 128}, {33, 300}}) {
    const auto w = test::normal({rows, columns}, 1, at::kFloat);
    const auto hessian = random_hessian(columns, 2);
    EXPECT_LT(output_error(w, quantized(w, hessian), hessian),
              0.9 * output_error(w, round_to_nearest(w, kInt6, "w"), hessian))
        << columns;
  }
}

TEST(Gptq, OfInputsWithoutCorrelationsItIsRoundToNearest) {
  const auto w = test::normal({9, 200}, 1, at::kFloat);
  expect_same(quantized(w, at::eye(200)).weight, round_to_nearest(w, kInt6, "w").weight);
}

TEST(Gptq, TakesStridedAndHalfPrecisionWeightsWithoutTheirGradient) {
  const auto hessian = random_hessian(30, 2);
  const auto w = test::normal({30, 20}, 1, at::kBFloat16).t().requires_grad_();
  const auto found = quantized(w, hessian);
  expect_same(found.weight, quantized(w.detach().to(at::kFloat).contiguous(), hessian).weight);
  EXPECT_FALSE(dequantize(found).requires_grad());
}

// Calibration that never excites an input says nothing about its weights; other data may excite it.
TEST(Gptq, WeightsOfDeadInputsAreRoundedByThemselvesAndChangeNoOthers) {
  const auto w = test::normal({7, 150}, 1, at::kFloat), hessian = random_hessian(150, 2, {3, 149});
  auto zeroing = kInt6;
  zeroing.zero_dead = true;
  const auto found = quantized(w, hessian).weight, zeroed = quantized(w, hessian, zeroing).weight;
  const auto nearest = round_to_nearest(w, kInt6, "w").weight;
  const auto dead = factor_hessian(hessian, "w").dead;
  EXPECT_EQ(dead.sum().item<std::int64_t>(), 2);
  EXPECT_TRUE(test::is_same(found.q, at::where(dead, nearest.q, zeroed.q)));
  EXPECT_FALSE(nearest.q.select(1, 3).eq(0).all().item<bool>());
  EXPECT_TRUE(zeroed.q.select(1, 3).eq(0).all().item<bool>());
}

TEST(Gptq, AMatrixWhoseInputsWereAllDeadIsRoundedToNearest) {
  const auto w = test::normal({4, 12}, 1, at::kFloat);
  expect_same(quantized(w, at::zeros({12, 12})).weight, round_to_nearest(w, kInt6, "w").weight);
}

// The rows' standard deviations are zero in fp16; the stored form must still give the weights.
TEST(Gptq, RowsWithoutSpreadAreStoredAsTheyAre) {
  auto w = test::normal({6, 64}, 1, at::kFloat);
  w[0].zero_();
  w[1].fill_(0.5);
  w[2].fill_(-3e-5);
  w[3] *= 1e-12;
  w[4] *= 1e7;
  // With GPTQ a weight also compensates for its neighbours' errors.
  for (const auto& [found, rtol] : {std::pair{round_to_nearest(w, kInt6, "w"), 1e-3},
                                    {quantized(w, random_hessian(64, 2)), 0.1}}) {
    const auto back = dequantize(found);
    EXPECT_TRUE(back.isfinite().all().item<bool>());
    EXPECT_GT(found.weight.scale.min().item<double>(), 0);
    EXPECT_TRUE(test::is_same(back[0], w[0]));
    // fp16 has a step of 2⁻²⁴ below 2⁻¹⁴.
    EXPECT_TRUE(test::is_close(back.slice(0, 1, 4), w.slice(0, 1, 4), rtol, 31.0 / (1 << 25)));
  }
  const auto column = at::tensor({0.25f, -3.0f}).unsqueeze(1);  // no unbiased deviation
  EXPECT_TRUE(test::is_close(dequantize(quantized(column, at::ones({1, 1}))), column, 1e-3, 0));
}

TEST(HessianFactor, IsTheUpperFactorOfTheInverse) {
  const auto hessian = random_hessian(70, 4);
  const auto found = factor_hessian(hessian, "w");
  auto damped = hessian.to(at::kDouble).clone();
  damped.diagonal().add_(0.01 * damped.diagonal().mean());
  const auto ordered = damped.index_select(0, found.order).index_select(1, found.order);
  const auto u = found.upper.to(at::kDouble);
  EXPECT_TRUE(test::is_same(found.upper, found.upper.triu()));
  EXPECT_GT(u.diagonal().min().item<double>(), 0);
  EXPECT_TRUE(test::is_close(u.t().matmul(u).matmul(ordered), at::eye(70), 0, 1e-4));
  EXPECT_EQ(found.damping, 0.01);
  const auto diagonal = hessian.diagonal().index_select(0, found.order);
  EXPECT_TRUE((diagonal.slice(0, 0, 69) >= diagonal.slice(0, 1)).all().item<bool>());
}

TEST(HessianFactor, ADeadInputHasADiagonalOfOne) {
  const auto found = factor_hessian(at::zeros({3, 3}), "w");
  EXPECT_TRUE(found.dead.all().item<bool>());
  EXPECT_TRUE(test::is_close(found.upper, at::eye(3) / std::sqrt(1.01), 1e-6, 0));
}

TEST(HessianFactor, EqualDiagonalsKeepTheirOrder) {
  EXPECT_TRUE(test::is_same(factor_hessian(at::eye(300), "w").order, at::arange(300)));
}

// Rounding in X·Xᵀ can make an eigenvalue negative.
TEST(HessianFactor, DampsMoreWhereThatIsNotPositiveDefinite) {
  const auto hessian_with = [](double eigenvalue) {
    auto values = at::ones({20}, at::kDouble);
    values[0] = eigenvalue;
    const auto basis = std::get<0>(at::linalg_qr(test::normal({20, 20}, 1)));
    return (basis * values).matmul(basis.t()).to(at::kFloat);
  };
  for (const auto& [eigenvalue, damping] :
       std::vector<std::pair<double, double>>{{0, 0.01}, {-0.05, 0.1}, {-0.5, 1}, {-5, 10}}) {
    const auto hessian = hessian_with(eigenvalue);
    EXPECT_EQ(factor_hessian(hessian, "w").damping, damping) << eigenvalue;
    const auto w = test::normal({5, 20}, 2, at::kFloat);
    EXPECT_TRUE(test::is_close(dequantize(quantized(w, hessian)), w, 0, 3)) << eigenvalue;
  }
  // The mean of the diagonal overflows.
  test::expect_error(
      [&] {
        factor_hessian(at::full({20, 20}, 3e38f), "w");
      },
      ExitCode::internal, "w: its Hessian is not positive definite");
  test::expect_error([&] { factor_hessian(hessian_with(-100), "blocks.1.mlp.fc.weight"); },
                     ExitCode::internal,
                     "blocks.1.mlp.fc.weight: its Hessian is not positive definite");
}

TEST(Gptq, WhatIsNotFiniteIsRefusedByName) {
  const auto w = test::normal({4, 8}, 1, at::kFloat);
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    auto hessian = random_hessian(8, 2), weight = w.clone();
    hessian[3][5] = bad;
    weight[1][2] = bad;
    test::expect_error([&] { factor_hessian(hessian, "tok_emb.weight"); }, ExitCode::internal,
                       "tok_emb.weight: its Hessian is not finite");
    test::expect_error([&] { quantized(weight, random_hessian(8, 2)); }, ExitCode::internal,
                       "w: cannot be quantised (expected finite numbers");
    test::expect_error([&] { round_to_nearest(weight, kInt6, "w"); }, ExitCode::internal,
                       "w: cannot be quantised");
  }
}

// Corrects the largest errors, the first among equal ones, and at most as many as there are.
TEST(Gptq, TheLargestErrorsAreCorrected) {
  std::vector<at::Tensor> weights;
  for (const double size : {1.0, 4.0, 2.0, 4.0, 3.0})
    weights.push_back(test::normal({32, 64}, 1, at::kFloat) * size);
  std::vector<GptqWeight> plain;
  for (const auto& w : weights) plain.push_back(round_to_nearest(w, kInt6, "w"));
  const auto corrected = [&](std::int64_t top_k) {
    auto rounded = plain;
    correct_largest_errors(weights, rounded, top_k, LqerOptions{});
    std::string which;
    for (const auto& weight : rounded) which += weight.correction ? '1' : '0';
    return std::pair{which, rounded};
  };
  EXPECT_EQ(corrected(0).first, "00000");
  EXPECT_EQ(corrected(1).first, "01000");
  EXPECT_EQ(corrected(3).first, "01011");
  const auto [which, all] = corrected(9);
  EXPECT_EQ(which, "11111");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto error = [&](const GptqWeight& quantized) {
      return (weights[i] - dequantize(quantized)).norm().item<double>();
    };
    EXPECT_LT(error(all[i]), 0.95 * error(plain[i])) << i;
  }
  std::vector<GptqWeight> none;
  correct_largest_errors({}, none, 3, LqerOptions{});
}

}  // namespace
}  // namespace tg
