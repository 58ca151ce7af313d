#include "ops/loss/softcap_cross_entropy.h"

#include "tests/ops/gradcheck.h"

namespace tg {
namespace {

struct Expected {
  at::Tensor nll, gradient;  // [N], [N, V] gradient of the mean
};

Expected by_hand(const at::Tensor& logits, const at::Tensor& targets, double cap) {
  const auto rows = static_cast<std::size_t>(logits.size(0)),
             vocab = static_cast<std::size_t>(logits.size(1));
  const auto z = test::values_of(logits);
  const auto target = targets.accessor<std::int64_t, 1>();
  std::vector<double> nll, gradient;
  for (std::size_t row = 0; row < rows; ++row) {
    double total = 0;
    for (std::size_t j = 0; j < vocab; ++j) {
      total += std::exp(cap * std::tanh(z[row * vocab + j] / cap));
    }
    const auto right = static_cast<std::size_t>(target[static_cast<std::int64_t>(row)]);
    nll.push_back(std::log(total) - cap * std::tanh(z[row * vocab + right] / cap));
    for (std::size_t j = 0; j < vocab; ++j) {
      const double tanh = std::tanh(z[row * vocab + j] / cap);
      const double share = std::exp(cap * tanh) / total;
      gradient.push_back((share - (j == right ? 1 : 0)) * (1 - tanh * tanh) /
                         static_cast<double>(rows));
    }
  }
  return {test::tensor_of(nll, {logits.size(0)}), test::tensor_of(gradient, logits.sizes())};
}

at::Tensor gradient_of(const at::Tensor& logits, const at::Tensor& targets, double cap) {
  const auto leaf = logits.clone().set_requires_grad(true);
  softcap_cross_entropy(leaf, targets, {cap}).backward();
  return leaf.grad();
}

TEST(SoftcapCrossEntropy, EqualsTheFormula) {
  const auto logits = test::normal({6, 11}, 1) * 20, targets = test::integers({6}, 11, 2);
  for (const double cap : {5.0, 30.0}) {
    const auto expected = by_hand(logits, targets, cap);
    EXPECT_TRUE(test::is_close(softcap_nll(logits, targets, cap), expected.nll, 1e-12, 1e-13));
    EXPECT_TRUE(test::is_close(softcap_cross_entropy(logits, targets, {cap}), expected.nll.mean(),
                               1e-12, 0));
    EXPECT_TRUE(test::is_close(gradient_of(logits, targets, cap), expected.gradient, 1e-11, 1e-15));
  }
}

TEST(SoftcapLosses, AreDifferentiableRowByRow) {
  const auto logits = test::normal({6, 11}, 1) * 20, targets = test::integers({6}, 9, 2);
  const auto right = by_hand(logits.narrow(1, 0, 9), targets, 5);
  const auto leaf = logits.clone().set_requires_grad(true);
  const auto losses = softcap_losses(leaf * 1, targets, 5, 9);
  EXPECT_TRUE(test::is_close(losses, right.nll, 1e-12, 1e-13));
  const auto upstream = test::normal({6}, 3);
  losses.backward(upstream);
  const auto expected = right.gradient * 6 * upstream.unsqueeze(1);
  EXPECT_TRUE(test::is_close(leaf.grad(), at::constant_pad_nd(expected, {0, 2}), 1e-11, 1e-15));
  const auto unscaled = leaf.grad().clone();
  leaf.mutable_grad().reset();
  const auto scaled = softcap_losses(leaf * 1, targets, 5, 9, /*grad_scale=*/4);
  EXPECT_TRUE(test::is_same(scaled.detach(), losses.detach()));
  scaled.backward(upstream);
  EXPECT_TRUE(test::is_close(leaf.grad(), unscaled * 4, 1e-14, 0));
}

// As in a mean over 48 tokens, with fp16 loss scaling.
TEST(SoftcapLosses, RoundTheirGradientsOnceAfterAllScaling) {
  const auto targets = test::integers({64}, 100, 6);
  const auto logits = (test::normal({64, 100}, 5) * 10).to(at::kHalf);
  const auto expected = by_hand(logits, targets, 30);
  const double scale = 2048;
  const auto leaf = logits.clone().set_requires_grad(true);
  softcap_losses(leaf, targets, 30, 0, scale).backward(at::full({64}, 1.0 / 64, at::kFloat));
  EXPECT_TRUE(test::is_close(leaf.grad().to(at::kDouble) / scale, expected.gradient, 1.02 / 2048,
                             0x1p-24 / scale));
}

TEST(SoftcapCrossEntropy, IsTheSameWithAndWithoutAGradient) {
  const auto logits = test::normal({6, 11}, 3, at::kFloat), targets = test::integers({6}, 11, 4);
  const auto leaf = logits.clone().set_requires_grad(true);
  const auto with = softcap_cross_entropy(leaf, targets, {30});
  EXPECT_TRUE(with.requires_grad());
  const auto without = softcap_cross_entropy(logits, targets, {30});
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(test::is_same(with.detach(), without));
}

TEST(SoftcapCrossEntropy, TheScaleOfTheGradientIsNotTheLosssAndComesBeforeTheRounding) {
  const auto targets = test::integers({64}, 100, 6);
  const auto logits = (test::normal({64, 100}, 5) * 10).to(at::kHalf);
  const auto expected = by_hand(logits, targets, 30);
  const double scale = 65536;
  const auto leaf = logits.clone().set_requires_grad(true);
  const auto loss = softcap_cross_entropy(
      leaf, targets, {.softcap = 30, .grad_scale = at::full({}, scale, at::kFloat)});
  EXPECT_TRUE(test::is_same(loss.detach(), softcap_cross_entropy(logits, targets, {30})));
  loss.backward();
  // Without loss scaling most of these would be subnormal or zero in fp16.
  EXPECT_TRUE(test::is_close(leaf.grad().to(at::kDouble) / scale, expected.gradient, 1.02 / 2048,
                             0x1p-24 / scale));
}

TEST(SoftcapCrossEntropy, ComputesHalfLogitsInSinglePrecision) {
  const auto logits = (test::normal({32, 100}, 5) * 10).to(at::kBFloat16);
  const auto targets = test::integers({32}, 100, 6);
  const auto expected = by_hand(logits, targets, 30);
  const auto nll = softcap_nll(logits, targets, 30);
  EXPECT_EQ(nll.scalar_type(), at::kFloat);
  EXPECT_EQ(softcap_cross_entropy(logits, targets, {30}).scalar_type(), at::kFloat);
  // The logits are exact; the error of fp32 is 2^-24 of a softcapped logit of up to 30.
  EXPECT_TRUE(test::is_close(nll, expected.nll, 1e-5, 1e-5));
  const auto gradient = gradient_of(logits, targets, 30);
  EXPECT_EQ(gradient.scalar_type(), at::kBFloat16);
  // One rounding to bf16, 2^-8 relative, after fp32 exponentials of up to 30 (1e-5 relative).
  EXPECT_TRUE(test::is_close(gradient, expected.gradient, 1.02 / 256, 1e-9));
}

TEST(SoftcapCrossEntropy, MultipliesByTheUpstreamGradient) {
  const auto targets = test::integers({5}, 7, 7);
  const auto f = [&](const at::Tensor& logits) {
    return softcap_cross_entropy(logits, targets, {3}) * -2.5;
  };
  EXPECT_TRUE(test::gradient_is_right(f, test::normal({5, 7}, 8) * 3));
}

TEST(SoftcapCrossEntropy, ScalesLossAndGradient) {
  const auto logits = test::normal({6, 11}, 9), targets = test::integers({6}, 11, 10);
  const auto expected = by_hand(logits, targets, 30);
  const auto leaf = logits.clone().set_requires_grad(true);
  const auto loss = softcap_cross_entropy(leaf, targets, {.softcap = 30, .scale = 0.125});
  loss.backward();
  EXPECT_TRUE(test::is_close(loss, expected.nll.mean() / 8, 1e-12, 0));
  EXPECT_TRUE(test::is_close(
      softcap_cross_entropy(logits, targets, {.softcap = 30, .scale = 0.125}), loss, 0, 0));
  EXPECT_TRUE(test::is_close(leaf.grad(), expected.gradient / 8, 1e-11, 1e-15));
}

TEST(SoftcapCrossEntropy, ColumnsBeyondTheVocabularyCountNowhere) {
  constexpr std::int64_t kVocab = 11;
  const auto logits = test::normal({6, kVocab}, 11) * 20, targets = test::integers({6}, kVocab, 12);
  const auto expected = by_hand(logits, targets, 30);
  for (const double padding : {0.0, 1e30, std::nan("")}) {
    auto leaf = at::full({6, 16}, padding, at::kDouble);
    leaf.narrow(1, 0, kVocab).copy_(logits);
    EXPECT_TRUE(test::is_close(softcap_nll(leaf, targets, 30, kVocab), expected.nll, 1e-12, 1e-13));
    leaf.set_requires_grad(true);
    const auto loss = softcap_cross_entropy(leaf, targets, {.softcap = 30, .vocab = kVocab});
    loss.backward();
    EXPECT_TRUE(test::is_close(loss, expected.nll.mean(), 1e-12, 0));
    EXPECT_TRUE(test::is_close(leaf.grad().narrow(1, 0, kVocab), expected.gradient, 1e-11, 1e-15));
    EXPECT_TRUE(test::is_same(leaf.grad().slice(1, kVocab), at::zeros({6, 5}, at::kDouble)));
  }
}

// Autograd differentiates mass·logsumexp − Σ_k weight_k·s_k, which has the gradient.
TEST(SoftcapCrossEntropy, WeightsSeveralTargetsOfOneSoftmax) {
  const Softcap softcap(11.5, 5, 15);
  const auto logits = test::normal({6, 13}, 21) * 20;
  const auto ids = test::integers({6, 3}, 11, 22);
  ids[2][1] = ids[2][0].item<std::int64_t>();  // weights of equal targets add up
  ids[4][2] = -1;
  auto weights = test::normal({6, 3}, 23).abs() + 0.1;
  weights[4][2] = 0;
  const auto mass = weights.sum(1);
  mass[5] += 0.25;
  const auto mean_nll = at::empty({}, at::kDouble);
  const auto leaf = logits.clone().set_requires_grad(true);
  const CrossEntropyOptions options{
      .softcap = softcap, .scale = 0.5, .vocab = 11, .mean_nll = mean_nll};
  const LossTargets targets{ids, weights, mass};
  const auto loss = softcap_cross_entropy(leaf, targets, options);
  (loss * 3).backward();

  const auto z = logits.clone().set_requires_grad(true);
  const auto s = 11.5 * ((z.narrow(1, 0, 11) + 5) / 15).tanh();
  const auto log_softmax = s.log_softmax(1), of_targets = s.gather(1, ids.clamp_min(0));
  const auto right = -(log_softmax.gather(1, ids.clamp_min(0)) * weights).sum(1).mean() * 0.5;
  const auto right_nll = -log_softmax.gather(1, ids.narrow(1, 0, 1)).mean() * 0.5;
  ((mass * s.logsumexp(1) - (weights * of_targets).sum(1)).mean() * 1.5).backward();
  EXPECT_TRUE(test::is_close(loss.detach(), right.detach(), 1e-13, 0));
  EXPECT_TRUE(test::is_close(mean_nll, right_nll.detach(), 1e-13, 0));
  EXPECT_TRUE(test::is_close(leaf.grad(), z.grad(), 1e-11, 1e-15));
  mean_nll.zero_();
  EXPECT_TRUE(test::is_same(softcap_cross_entropy(logits, targets, options), loss.detach()));
  EXPECT_TRUE(test::is_close(mean_nll, right_nll.detach(), 1e-13, 0));
}

TEST(SoftcapCrossEntropy, ASigmoidIsASoftcapUpToAConstant) {
  const auto logits = test::normal({4, 9}, 24) * 10, ids = test::integers({4}, 9, 25);
  const auto s = 23 * ((logits + 5) / 7.5).sigmoid();
  EXPECT_TRUE(test::is_close(softcap_nll(logits, ids, {11.5, 5, 15}),
                             -s.log_softmax(1).gather(1, ids.unsqueeze(1)).squeeze(1), 1e-12,
                             1e-13));
}

TEST(SoftcapCrossEntropy, HugeLogitsStayFinite) {
  const auto logits = test::tensor_of({1e30, -1e30, 0, 0}, {2, 2}, at::kFloat);
  const auto targets = at::tensor(std::vector<std::int64_t>{1, 0}, at::kLong);
  const auto nll = softcap_nll(logits, targets, 30);
  EXPECT_TRUE(test::is_close(nll, test::tensor_of({60, std::log(2.0)}, {2}), 1e-6, 0));
  EXPECT_TRUE(gradient_of(logits, targets, 30).isfinite().all().item<bool>());
}

// With a vocabulary of more than 2^25 a chunk has one row, so two rows are two chunks. All logits
// are zero except the target's, which is negative: the loss has a closed form.
TEST(SoftcapCrossEntropy, RowsInSeveralChunksAreAllCounted) {
  constexpr std::int64_t kVocab = (std::int64_t{1} << 25) + 1;
  constexpr double kCap = 30;
  const std::vector<double> target_logit = {-20, -8};
  const std::vector<std::int64_t> target = {7, kVocab - 1};
  const auto targets = at::tensor(target, at::kLong);
  const auto logits = at::zeros({2, kVocab}, at::kBFloat16);
  for (int row = 0; row < 2; ++row) logits[row][target[row]] = target_logit[row];
  logits.set_requires_grad(true);
  const auto loss = softcap_cross_entropy(logits, targets, {kCap});
  loss.backward();
  const auto gradient = logits.grad();
  double mean = 0;
  for (int row = 0; row < 2; ++row) {
    const double tanh = std::tanh(target_logit[row] / kCap), weight = std::exp(kCap * tanh);
    const double total = weight + static_cast<double>(kVocab - 1);
    mean += (std::log(total) - kCap * tanh) / 2;
    const double at_target = (weight / total - 1) * (1 - tanh * tanh) / 2;
    // The rounding to bf16 is 2^-8; the sum over 2^25 ones is exact in each chunk's partial sums.
    EXPECT_NEAR(gradient[row][target[row]].item<double>(), at_target, std::abs(at_target) / 250);
    EXPECT_NEAR(gradient[row][100].item<double>(), 1 / total / 2, 1 / total / 2 / 250);
  }
  EXPECT_NEAR(loss.item<double>(), mean, 1e-4);
}

}  // namespace
}  // namespace tg
