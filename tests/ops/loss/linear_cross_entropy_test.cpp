#include "ops/loss/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Problem {
  at::Tensor x = test::normal({7, 6}, 1), weight = test::normal({11, 6}, 2),
             targets = test::integers({7}, 9, 3);
};
const CrossEntropyOptions kOptions{.softcap = 15, .scale = 0.5, .vocab = 9};

// The formula, differentiated by autograd alone.
at::Tensor expected_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets) {
  const auto s = 15 * (at::matmul(x, weight.t()).narrow(1, 0, 9) / 15).tanh();
  return s.log_softmax(1).gather(1, targets.unsqueeze(1)).mean() * -0.5;
}

TEST(LinearCrossEntropy, IsTheLossOfTheLogitsAndAccumulatesTheWeightsGradient) {
  const Problem p;
  const auto x = p.x.clone().set_requires_grad(true);
  const auto sum = test::normal({11, 6}, 4);
  const auto before = sum.clone();
  const auto loss = linear_cross_entropy(x, {p.weight, sum}, p.targets, kOptions);
  loss.backward();

  const auto exact_x = p.x.clone().set_requires_grad(true);
  const auto exact_weight = p.weight.clone().set_requires_grad(true);
  const auto exact = expected_loss(exact_x, exact_weight, p.targets);
  exact.backward();
  EXPECT_TRUE(test::is_close(loss, exact, 1e-13, 0));
  EXPECT_TRUE(test::is_close(x.grad(), exact_x.grad(), 1e-12, 1e-15));
  EXPECT_TRUE(test::is_close(sum, before + exact_weight.grad(), 1e-12, 1e-15));
}

TEST(LinearCrossEntropy, DifferentiatesAWeightThatHasNoGradientBuffer) {
  const Problem p;
  const auto weight = p.weight.clone().set_requires_grad(true);
  linear_cross_entropy(p.x, {weight, {}}, p.targets, kOptions).backward();
  const auto exact = p.weight.clone().set_requires_grad(true);
  expected_loss(p.x, exact, p.targets).backward();
  EXPECT_TRUE(test::is_close(weight.grad(), exact.grad(), 1e-12, 1e-15));
}

TEST(LinearCrossEntropy, WithoutGradientsIsTheMeanOfTheTokensLosses) {
  const Problem p;
  const at::NoGradGuard no_grad;
  const auto loss = linear_cross_entropy(p.x, {p.weight, {}}, p.targets, kOptions);
  EXPECT_TRUE(test::is_close(loss, expected_loss(p.x, p.weight, p.targets), 1e-13, 0));
  const auto nll = linear_nll(p.x, {p.weight, {}}, p.targets, kOptions);
  ASSERT_EQ(nll.sizes(), p.targets.sizes());
  EXPECT_TRUE(at::equal(loss, nll.mean() * 0.5));
}

TEST(LinearNll, HasTheLogitsOfOneChunkAtATime) {
  const auto x = test::normal({603, 6}, 1), weight = test::normal({11, 6}, 2),
             targets = test::integers({603}, 9, 3);
  auto options = kOptions;
  const auto at_once = linear_nll(x, {weight, {}}, targets, options);
  options.chunk_bytes = 1;
  EXPECT_TRUE(test::is_close(linear_nll(x, {weight, {}}, targets, options), at_once, 1e-13, 0));
  std::vector<std::int64_t> rows;
  for_each_logits(
      x, {weight, {}},
      [&](std::int64_t first, const at::Tensor& z) {
        EXPECT_EQ(first, 256 * std::ssize(rows));
        EXPECT_FALSE(z.requires_grad());
        rows.push_back(z.size(0));
      },
      options.chunk_bytes);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{256, 256, 91}));
}

// Chunks of at most 1,152 MiB, in whole clusters of tiles.
TEST(FusedHeadRows, AreThoseOfTheFewestEqualChunks) {
  EXPECT_EQ(fused_head_rows(98304, 8192), 49152);   // 73,728 would fit
  EXPECT_EQ(fused_head_rows(65536, 50304), 11008);  // five chunks and one of 10,496
  EXPECT_EQ(fused_head_rows(73728, 8192), 73728);
  EXPECT_EQ(fused_head_rows(73729, 8192), 37120);
  EXPECT_EQ(fused_head_rows(1, 8192), 256);
  EXPECT_EQ(fused_head_rows(603, 8208, /*chunk_bytes=*/1), 256);
}

}  // namespace
}  // namespace tg
