// Tests the kernels of ops/loss/softcap_cross_entropy.h against the formula in fp64.
#include <torch/csrc/autograd/autograd.h>

#include "ops/fused.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "tests/ops/on_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Case {
  at::ScalarType dtype;
  double rounding;  // relative, of a stored gradient
  double smallest;  // absolute: the smallest subnormal, or an underflow in an fp32 multiplication
  double error;     // absolute, of a softcapped logit and so of an nll; relative, of a softmax
                    // probability
};

class SoftcapCrossEntropyGpu : public test::OnGpu<::testing::TestWithParam<Case>> {};

struct Problem {
  at::Tensor logits, targets;
  std::int64_t vocab;

  // `padding`: columns beyond the vocabulary, with logits that would be the largest.
  Problem(std::int64_t rows, std::int64_t columns, at::ScalarType dtype, std::int64_t padding = 0)
      : logits((at::randn({rows, columns + padding}, at::device(test::kGpu).dtype(at::kFloat)) * 10)
                   .to(dtype)),
        targets(at::randint(columns, {rows}, at::device(test::kGpu).dtype(at::kLong))),
        vocab(columns) {
    logits.slice(1, vocab).fill_(1000);
    // The first and the last column, where an off-by-one error shows.
    targets[0].fill_(0);
    targets[rows - 1].fill_(vocab - 1);
  }
};

struct Found {
  at::Tensor loss, gradient;
};
Found run(const Problem& problem, double cap, double scale, double upstream = 1,
          const at::Tensor& grad_scale = {}) {
  const auto leaf = problem.logits.clone().set_requires_grad(true);
  const auto loss = softcap_cross_entropy(
      leaf, problem.targets,
      {.softcap = cap, .scale = scale, .vocab = problem.vocab, .grad_scale = grad_scale});
  const auto gradient =
      torch::autograd::grad({loss}, {leaf}, {at::full({}, upstream, loss.options())})[0];
  return {loss.detach(), gradient};
}

TEST_P(SoftcapCrossEntropyGpu, LossAndGradientMatchTheFormula) {
  const auto& tested = GetParam();
  at::manual_seed(1);
  const struct {
    std::int64_t rows, vocab, padding = 0;
  } shapes[] = {
      // The recipes' sizes, each with more rows than blocks.
      {.rows = 9001, .vocab = 1024},
      {.rows = 300, .vocab = 50304},
      // Less than a warp; one row.
      {.rows = 3, .vocab = 16},
      {.rows = 1, .vocab = 1024},
      // A last iteration that does not need all threads, and one that does.
      {.rows = 70, .vocab = 2056},
      {.rows = 5, .vocab = 8192},
      // Rows that are not aligned to a pack.
      {.rows = 3, .vocab = 50257},
      {.rows = 700, .vocab = 37},
      // Rows too large for shared memory.
      {.rows = 3, .vocab = 60000},
      {.rows = 2, .vocab = 131072},
      // Padded rows: one warp each; kept in shared memory, with and without a whole pack of
      // padding; read twice; not aligned to a pack.
      {.rows = 9001, .vocab = 1000, .padding = 24},
      {.rows = 300, .vocab = 50257, .padding = 47},
      {.rows = 70, .vocab = 2055, .padding = 1},
      {.rows = 3, .vocab = 59990, .padding = 10},
      {.rows = 700, .vocab = 37, .padding = 4},
  };
  for (const auto& [rows, vocab, padding] : shapes) {
    for (const double cap : {30.0, 5.0}) {
      const Problem problem(rows, vocab, tested.dtype, padding);
      const auto z = problem.logits.narrow(1, 0, vocab).to(at::kDouble),
                 index = problem.targets.unsqueeze(1);
      const auto tanh = (z / cap).tanh(), log_softmax = (cap * tanh).log_softmax(1);
      const auto nll = log_softmax.gather(1, index).squeeze(1).neg();
      const double scale = 0.5, row_scale = scale / static_cast<double>(rows);
      const auto slope = 1 - tanh.square(), share = log_softmax.exp();
      const auto hit = at::zeros_like(z).scatter_(1, index, 1.0);
      const auto exact = (share - hit) * slope * row_scale;

      const auto where = testing::Message()
                         << rows << " x " << vocab << " + " << padding << ", cap " << cap;
      EXPECT_TRUE(test::is_close(softcap_nll(problem.logits, problem.targets, cap, vocab), nll, 0,
                                 tested.error))
          << where;
      const auto found = run(problem, cap, scale);
      EXPECT_TRUE(test::is_close(found.loss, nll.mean() * scale, 1e-6, tested.error)) << where;
      EXPECT_EQ(found.gradient.scalar_type(), tested.dtype);
      // A probability has the error of its logit; in fp32 the slope has a rounding of tanh near
      // one.
      const auto allowed =
          tested.rounding * exact.abs() +
          row_scale * (tested.error * (share + hit) * slope + 0x1p-21 * (share + hit)) +
          tested.smallest;
      const auto gradient = found.gradient.narrow(1, 0, vocab).to(at::kDouble);
      const auto worst = ((gradient - exact).abs() / allowed).max();
      EXPECT_EQ(found.gradient.slice(1, vocab).count_nonzero().item<std::int64_t>(), 0) << where;
      EXPECT_LE(worst.item<double>(), 1) << where;
    }
  }
}

TEST_P(SoftcapCrossEntropyGpu, UpstreamGradientScales) {
  const Problem problem(50, 1024, GetParam().dtype);
  const auto once = run(problem, 30, 1).gradient;
  EXPECT_TRUE(test::is_same(run(problem, 30, 1, 0.25).gradient.cpu(), (once * 0.25).cpu()));
}

TEST_P(SoftcapCrossEntropyGpu, TheScaleOfTheGradientIsReadOnTheDeviceBeforeTheRounding) {
  const auto on_gpu = at::device(test::kGpu).dtype(at::kFloat);
  for (const std::int64_t vocab : {1024, 50304, 50257}) {
    const Problem problem(100, vocab, GetParam().dtype);
    const auto by_host = run(problem, 30, 1024),
               by_device = run(problem, 30, 1, 1, at::full({}, 1024, on_gpu));
    EXPECT_TRUE(at::equal(by_device.gradient, by_host.gradient));
    EXPECT_TRUE(at::equal(by_device.loss, run(problem, 30, 1).loss));
  }
}

TEST_P(SoftcapCrossEntropyGpu, LossesScaleTheirRowsGradientsBeforeTheRounding) {
  for (const std::int64_t vocab : {1024, 8192, 37}) {
    const Problem problem(64, vocab, GetParam().dtype);
    const auto by_host = run(problem, 30, 1024).gradient;
    const auto leaf = problem.logits.clone().set_requires_grad(true);
    const auto losses = softcap_losses(leaf * 1, problem.targets, 30, problem.vocab, 2048);
    auto upstream = at::full({64}, 1024.0 / 64 / 2048, losses.options());
    upstream[3] = 0;
    losses.backward(upstream);
    EXPECT_EQ(leaf.grad()[3].count_nonzero().item<std::int64_t>(), 0);
    EXPECT_TRUE(at::equal(leaf.grad().slice(0, 4), by_host.slice(0, 4)));
  }
}

TEST_P(SoftcapCrossEntropyGpu, GivesTheSameBitsAgain) {
  for (const std::int64_t vocab : {1024, 50304, 50257}) {
    const Problem problem(300, vocab, GetParam().dtype);
    const auto first = run(problem, 30, 1), second = run(problem, 30, 1);
    EXPECT_TRUE(at::equal(first.loss, second.loss));
    EXPECT_TRUE(at::equal(first.gradient, second.gradient));
  }
}

TEST_P(SoftcapCrossEntropyGpu, InfiniteLogitsAreCappedAndNaNsSeen) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const std::int64_t vocab : {16, 7}) {
    Problem problem(4, vocab, GetParam().dtype);
    problem.logits.zero_();
    problem.targets.fill_(1);
    problem.logits[0][0] = infinity;
    problem.logits[1][0] = -infinity;
    problem.logits[2][5] = nan;
    problem.targets[3].fill_(vocab);  // not a column
    const auto nll = softcap_nll(problem.logits, problem.targets, {30}).cpu();
    const auto others = static_cast<double>(vocab - 1);
    EXPECT_NEAR(nll[0].item<double>(), std::log(std::exp(30) + others), 1e-4);
    EXPECT_NEAR(nll[1].item<double>(), std::log(others + std::exp(-30)), 1e-4);
    EXPECT_TRUE(nll[2].isnan().item<bool>());
    EXPECT_TRUE(nll[3].isnan().item<bool>());
    EXPECT_TRUE(run(problem, 30, 1).gradient.narrow(0, 0, 2).isfinite().all().item<bool>());
  }
}

TEST_P(SoftcapCrossEntropyGpu, LogitsAreUnchangedWithoutAGradientAndOverwrittenWithOne) {
  const Problem problem(40, 1024, GetParam().dtype);
  const auto before = problem.logits.clone();
  softcap_nll(problem.logits, problem.targets, {30});
  softcap_cross_entropy(problem.logits, problem.targets, {30});
  EXPECT_TRUE(at::equal(problem.logits, before));
  // square() has saved the logits that are overwritten.
  const auto leaf = before.clone().set_requires_grad(true);
  const auto z = leaf * 1;
  const auto other = z.square().sum();
  EXPECT_THROW((softcap_cross_entropy(z, problem.targets, {30}) + other).backward(), c10::Error);
}

TEST_P(SoftcapCrossEntropyGpu, WideCapsRunAsTheReference) {
  const Problem problem(20, 1024, GetParam().dtype);
  const auto exact = softcap_nll(problem.logits.to(at::kDouble), problem.targets, 100);
  EXPECT_TRUE(test::is_close(softcap_nll(problem.logits, problem.targets, 100), exact, 1e-5, 1e-5));
  EXPECT_TRUE(run(problem, 100, 1).gradient.isfinite().all().item<bool>());
}

// The error of s: in fp32 some roundings of values up to 60, in 16-bit formats the roundings of
// 1/(1 + exp).
INSTANTIATE_TEST_SUITE_P(
    Dtypes, SoftcapCrossEntropyGpu,
    ::testing::Values(
        Case{.dtype = at::kFloat, .rounding = 0x1p-21, .smallest = 1e-36, .error = 2e-5},
        Case{.dtype = at::kBFloat16, .rounding = 0x1p-8, .smallest = 1e-36, .error = 6e-5},
        Case{.dtype = at::kHalf, .rounding = 0x1p-10, .smallest = 0x1p-24, .error = 6e-5}),
    [](const auto& tested) { return std::string(c10::toString(tested.param.dtype)); });

}  // namespace
}  // namespace tg
