// Tests the head and its loss, in chunks of tokens on a GPU, against fp64. Skipped without a GPU;
// the FP8 tests without FP8 tensor cores.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "device/gpu.h"
#include "device/gpu_memory.h"
#include "ops/fused.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "tests/ops/gemm/fp8.h"
#include "tests/ops/on_fp8_gpu.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

struct Case {
  std::int64_t rows, dim, vocab, padding = 0;
  double cap = 30;
  std::int64_t chunk_bytes = kFusedHeadBytes;
};

struct Results {
  at::Tensor loss, dx, dw;
};

class LinearCrossEntropyGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  static constexpr double kScale = 0.5;
  // Initial value of the weight's gradient. Ones would be too large: in fp32 the sum with them
  // would round by 0.6 of the bounds below, relative to the largest row, at 50,304 columns.
  static constexpr double kBefore = 0x1p-10;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    const auto c = GetParam();
    at::manual_seed(1);
    const auto random = [](at::IntArrayRef sizes) { return at::randn(sizes, test::kGpu); };
    weight = (random({c.vocab + c.padding, c.dim}) * 0.3).to(at::kBFloat16);
    weight.slice(0, c.vocab).zero_();
    targets = at::randint(c.vocab, {c.rows}, at::device(test::kGpu).dtype(at::kLong));
    targets[0].fill_(0);
    targets[c.rows - 1].fill_(c.vocab - 1);
    // In half of the rows the model knows the target, in some almost certainly, where 1 − p
    // matters.
    const auto sure = at::rand({c.rows, 1}, test::kGpu).sub_(0.5).clamp_min_(0) * 10;
    const auto unit = weight.index_select(0, targets).to(at::kFloat);
    x = (random({c.rows, c.dim}) * (3 / std::sqrt(static_cast<double>(c.dim))) +
         unit * (sure * 5 / unit.square().sum(1, true)))
            .to(at::kBFloat16);
  }
  static CrossEntropyOptions options() {
    const auto c = GetParam();
    return {.softcap = c.cap, .scale = kScale, .vocab = c.vocab, .chunk_bytes = c.chunk_bytes};
  }
  Results run(const Weight& w, const CrossEntropyOptions& with) const {
    const auto in = x.detach().set_requires_grad(true);
    const auto loss = linear_cross_entropy(in, w, targets, with);
    loss.backward();
    return {loss.detach(), in.grad(), w.gradient - kBefore};
  }
  Results run(const Weight& w) const { return run(w, options()); }
  Weight head() const {
    return {weight, at::full(weight.sizes(), kBefore, weight.options().dtype(at::kFloat))};
  }
  Results run() const { return run(head()); }
  // Uses the scales that a previous step leaves; the head itself has the scale of another
  // network.
  Weight fp8_head() const {
    auto head = test::fp8_weight(weight);
    run(head);
    for (const auto& [scaling, max] : {std::pair{&head.fp8.input, kFp8Max},
                                       {&head.fp8.output_gradient, kE5m2Max},
                                       {&head.fp8.scaled_input, kFp8Max}})
      at::Tensor(scaling->scale).copy_(scaling->amax * (4 / max));
    head.gradient.fill_(kBefore);
    return head;
  }
  // Makes each target's weights larger along its x, by less than rounding to e4m3 preserves.
  void hide_targets_from_rounding() {
    const auto fp8 = test::fp8_weight(weight).fp8;
    const auto rounded = fp8.value.to(at::kFloat) * fp8.scale;
    const auto along_x =
        at::zeros_like(rounded).index_put_({targets}, x.to(at::kFloat).sign()) * rounded.sign();
    // The scale is derived from the largest element.
    const auto is_largest = rounded.abs() == rounded.abs().max();
    weight = at::where(is_largest, rounded, rounded * (1 + 0.02 * along_x)).to(at::kBFloat16);
  }

  static at::Tensor scale_of(double value) {
    return at::full({}, value, at::device(test::kGpu).dtype(at::kFloat));
  }
  // Softcapped logits [rows, vocab] in fp64.
  static at::Tensor logits_of(const at::Tensor& of_x, const at::Tensor& of_weight) {
    const auto c = GetParam();
    const auto w64 = of_weight.slice(0, 0, c.vocab).to(at::kDouble);
    return (at::mm(of_x.to(at::kDouble), w64.t()) / c.cap).tanh_().mul_(c.cap);
  }
  at::Tensor loss_of(const at::Tensor& log_softmax) const {
    return log_softmax.gather(1, targets.unsqueeze(1)).mean().neg() * kScale;
  }
  Results exact() const {
    constexpr std::int64_t kRowsAtOnce = 1024;  // one row of fp64 logits takes up to 400 KB
    const auto c = GetParam();
    const auto w64 = weight.slice(0, 0, c.vocab).to(at::kDouble);
    const double share = kScale / static_cast<double>(c.rows);
    auto loss = at::zeros({}, w64.options()), dx = at::empty(x.sizes(), w64.options()),
         dw = at::zeros(weight.sizes(), w64.options());
    for (std::int64_t first = 0; first < c.rows; first += kRowsAtOnce) {
      const auto part = [&](const at::Tensor& rows) {
        return rows.slice(0, first, first + kRowsAtOnce);
      };
      const auto index = part(targets).unsqueeze(1);
      const auto logits = logits_of(part(x), weight), log_softmax = logits.log_softmax(1);
      loss.sub_(log_softmax.gather(1, index).sum(), share);
      auto dz = log_softmax.exp();
      dz.scatter_add_(1, index, at::full_like(index, -1, dz.options()));
      dz.mul_(1 - (logits / c.cap).square()).mul_(share);
      part(dx).copy_(at::mm(dz, w64));
      dw.slice(0, 0, c.vocab).addmm_(dz.t(), part(x).to(at::kDouble));
    }
    return {loss, dx, dw};
  }

  at::Tensor x, weight, targets;
};

// The largest error of any row, relative to the largest row: detects a wrong tile, row or column.
double worst_row(const at::Tensor& found, const at::Tensor& exact) {
  const auto off = (found.to(at::kDouble) - exact).norm(2, 1);
  return (off.max() / exact.norm(2, 1).max()).item<double>();
}

TEST_P(LinearCrossEntropyGpu, MatchesTheFormulaInFp64) {
  const auto found = run(), right = exact();
  EXPECT_NEAR(found.loss.item<double>(), right.loss.item<double>(), 3e-5);
  EXPECT_LE(worst_row(found.dx, right.dx), 1.0 / 256);
  EXPECT_LE(worst_row(found.dw, right.dw), 1.0 / 256);
  EXPECT_EQ(found.dw.slice(0, GetParam().vocab).count_nonzero().item<std::int64_t>(), 0);

  // Checks that the intended path ran: the unfused path rounds the target's logit.
  const auto logits = linear(x, {weight, {}});
  const auto separate =
      softcap_nll(logits, targets, GetParam().cap, GetParam().vocab).mean() * kScale;
  EXPECT_FALSE(at::equal(found.loss, separate));
}

TEST_P(LinearCrossEntropyGpu, RowsThatKnowTheirTargetKeepTheirSmallGradients) {
  const auto found = run(), right = exact();
  const auto norm = right.dx.norm(2, 1);
  const auto off = (found.dx.to(at::kDouble) - right.dx).norm(2, 1) / norm.clamp_min(1e-12);
  // Without Hopper's kernels each logit is rounded to bf16, of which one may be most of a gradient.
  EXPECT_LE(off.max().item<double>(), use_hopper_kernels(weight) ? 0.02 : 0.04);
}

TEST_P(LinearCrossEntropyGpu, GivesTheSameBitsAgain) {
  const auto first = run(), second = run();
  EXPECT_TRUE(at::equal(first.loss, second.loss));
  EXPECT_TRUE(at::equal(first.dx, second.dx));
  EXPECT_TRUE(at::equal(first.dw, second.dw));
}

TEST_P(LinearCrossEntropyGpu, TheGradientScaleMultipliesBothGradientsAndNotTheLoss) {
  auto scaled = options();
  scaled.grad_scale = scale_of(-24);  // not a power of two
  const auto found = run(head(), scaled), right = exact();
  EXPECT_TRUE(at::equal(found.loss, run().loss));
  EXPECT_LE(worst_row(found.dx, right.dx * -24), 1.0 / 256);
  EXPECT_LE(worst_row(found.dw, right.dw * -24), 1.0 / 256);
}

// Rows whose size is a multiple of 16 bytes.
class LinearCrossEntropyFp8Gpu : public LinearCrossEntropyGpu {
 protected:
  void SetUp() override {
    LinearCrossEntropyGpu::SetUp();
    if (!IsSkipped() && !test::has_fp8_gemms()) GTEST_SKIP() << "no FP8 tensor cores";
  }
};

TEST_P(LinearCrossEntropyFp8Gpu, IsNearBf16) {
  const auto found = run(fp8_head()), bf16 = run();
  const auto relative = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).to(at::kFloat).norm() / b.to(at::kFloat).norm()).item<double>();
  };
  // The mean over rows that are each off by a tenth of their loss, in either direction.
  const double off = 0.02 + 0.1 / std::sqrt(static_cast<double>(GetParam().rows));
  EXPECT_NEAR(found.loss.item<double>() / bf16.loss.item<double>(), 1, off);
  EXPECT_FALSE(at::equal(found.loss, bf16.loss)) << "not the path that was meant";
  EXPECT_LE(relative(found.dx, bf16.dx), 0.1);
  EXPECT_LE(relative(found.dw, bf16.dw), 0.1);
  EXPECT_EQ(found.dw.slice(0, GetParam().vocab).count_nonzero().item<std::int64_t>(), 0);
  const auto again = run(fp8_head());
  EXPECT_TRUE(at::equal(again.loss, found.loss));
  EXPECT_TRUE(at::equal(again.dx, found.dx));
  EXPECT_TRUE(at::equal(again.dw, found.dw));
}

// All logits use the rounded operands, except the target's logit, which uses the operands before
// rounding.
TEST_P(LinearCrossEntropyFp8Gpu, TheTargetsLogitIsNotRounded) {
  hide_targets_from_rounding();
  const auto head = fp8_head();
  const auto rounded_x =
                 to_fp8(x, head.fp8.input).to(at::kDouble) * head.fp8.input.scale.to(at::kDouble),
             rounded_weight = head.fp8.value.to(at::kDouble) * head.fp8.scale.to(at::kDouble);
  const auto rounded = logits_of(rounded_x, rounded_weight);
  const auto index = targets.unsqueeze(1);
  const auto right =
      loss_of(rounded.scatter(1, index, logits_of(x, weight).gather(1, index)).log_softmax(1));
  EXPECT_NEAR(run(head).loss.item<double>(), right.item<double>(), 1e-3);
  EXPECT_GT((loss_of(rounded.log_softmax(1)) - right).item<double>(), 2e-3) << "no such case";
}

TEST_P(LinearCrossEntropyFp8Gpu, ANaNInTheInputIsOneInTheLoss) {
  x[GetParam().rows / 2][1].fill_(NAN);
  EXPECT_TRUE(run(fp8_head()).loss.isnan().item<bool>());
}

TEST_P(LinearCrossEntropyGpu, ANaNInTheInputIsOneInTheLoss) {
  x[GetParam().rows / 2][1].fill_(NAN);
  EXPECT_TRUE(run().loss.isnan().item<bool>());
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  const auto& c = tested.param;
  return fmt::format("{}x{}x{}", c.rows, c.dim, c.vocab);
}

constexpr Case kSpeedrun{.rows = 8192, .dim = 768, .vocab = 50304},
    // Vocabularies of Llama 3 and Qwen 2.5.
    kLlama{.rows = 2048, .dim = 768, .vocab = 128256},
    kQwen{.rows = 2048, .dim = 896, .vocab = 151936}, kOneRow{.rows = 1, .dim = 64, .vocab = 8192},
    kOdd{.rows = 333, .dim = 208, .vocab = 9999, .padding = 1, .cap = 15},
    // Two chunks of 256 rows and one of 91.
    kChunks{.rows = 603, .dim = 64, .vocab = 8199, .padding = 9, .chunk_bytes = 1};

INSTANTIATE_TEST_SUITE_P(
    Shapes, LinearCrossEntropyGpu,
    ::testing::Values(kSpeedrun, Case{.rows = 4096, .dim = 768, .vocab = 50257, .padding = 7},
                      kLlama, kQwen, kOneRow, kChunks,
                      Case{.rows = 1111, .dim = 72, .vocab = 8200, .padding = 8},
                      Case{.rows = 300, .dim = 520, .vocab = 9999, .padding = 1, .cap = 15}, kOdd),
    name_of);
INSTANTIATE_TEST_SUITE_P(Shapes, LinearCrossEntropyFp8Gpu,
                         ::testing::Values(kSpeedrun, kLlama, kQwen, kOneRow, kOdd, kChunks),
                         name_of);

// A token's loss and gradients do not depend on its chunk.
class LinearCrossEntropyChunksGpu : public LinearCrossEntropyGpu {
 protected:
  void expect_same(const Results& found, const Results& right, double tolerance) const {
    // cuBLAS may sum the logits of another number of rows in another order.
    const double rounding = use_hopper_kernels(weight) ? 0 : 1e-5;
    EXPECT_NEAR(found.loss.item<double>(), right.loss.item<double>(), rounding);
    EXPECT_LE(worst_row(found.dx, right.dx.to(at::kDouble)), tolerance);
    EXPECT_LE(worst_row(found.dw, right.dw.to(at::kDouble)), tolerance);
  }
};

TEST_P(LinearCrossEntropyChunksGpu, TheirNumberChangesNothingButTheOrderOfSums) {
  expect_same(run(), run(head(), {.softcap = 30, .scale = kScale, .vocab = GetParam().vocab}),
              1.0 / 256);
}

TEST_P(LinearCrossEntropyChunksGpu, InFp8Neither) {
  if (!test::has_fp8_gemms()) GTEST_SKIP() << "no FP8 tensor cores";
  expect_same(run(fp8_head()),
              run(fp8_head(), {.softcap = 30, .scale = kScale, .vocab = GetParam().vocab}),
              1.0 / 256);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearCrossEntropyChunksGpu, ::testing::Values(kChunks), name_of);

// Three weighted targets under a shifted softcap, as the speedrun's later records have them: the
// next two tokens, and a third of some rows whose mass alone counts.
class LinearCrossEntropyWeightedGpu : public LinearCrossEntropyGpu {
 protected:
  void SetUp() override {
    LinearCrossEntropyGpu::SetUp();
    if (IsSkipped()) return;
    const auto rows = GetParam().rows;
    const auto ids = at::randint(GetParam().vocab, {rows, 3}, targets.options());
    ids.select(1, 0).copy_(targets);
    ids.slice(0, 0, c10::nullopt, 5).select(1, 1).copy_(targets.slice(0, 0, c10::nullopt, 5));
    auto weights = at::tensor({1.0, 0.5, 0.25}, at::device(test::kGpu).dtype(at::kFloat))
                       .expand({rows, 3})
                       .contiguous();
    ids.slice(0, 0, c10::nullopt, 3).select(1, 2).fill_(-1);
    weights.slice(0, 0, c10::nullopt, 3).select(1, 2).zero_();
    all = LossTargets(ids, weights, weights.sum(1));
    all.mass.slice(0, 0, c10::nullopt, 7) += 0.25;
  }
  Results run_all(const Weight& w) const {
    const auto in = x.detach().set_requires_grad(true);
    auto with = options();
    with.softcap = {11.5, 5, 15};
    with.mean_nll = mean_nll;
    with.grad_scale = scale_of(-3);
    const auto loss = linear_cross_entropy(in, w, all, with);
    loss.backward();
    return {loss.detach(), in.grad(), w.gradient - kBefore};
  }
  Results exact_all() const {
    const auto c = GetParam();
    const auto leaf = [](const at::Tensor& of) {
      return of.to(at::kDouble).set_requires_grad(true);
    };
    const auto x64 = leaf(x), w64 = leaf(weight);
    const auto s = 11.5 * ((at::mm(x64, w64.slice(0, 0, c.vocab).t()) + 5) / 15).tanh();
    const auto of_targets = s.gather(1, all.ids.clamp_min(0)), lse = s.logsumexp(1);
    (((all.mass * lse).mean() - (all.weights * of_targets).sum(1).mean()) * (-3 * kScale))
        .backward();
    const auto nll = lse.unsqueeze(1) - of_targets;
    mean_nll_exact = nll.select(1, 0).mean().detach() * kScale;
    return {(all.weights * nll).sum(1).mean().detach() * kScale, x64.grad(), w64.grad()};
  }

  LossTargets all{at::Tensor()};
  at::Tensor mean_nll = at::empty({}, at::device(test::kGpu).dtype(at::kFloat));
  mutable at::Tensor mean_nll_exact;
};

TEST_P(LinearCrossEntropyWeightedGpu, MatchesTheFormulaInFp64) {
  const auto found = run_all(head()), right = exact_all();
  EXPECT_NEAR(found.loss.item<double>(), right.loss.item<double>(), 5e-5);
  EXPECT_NEAR(mean_nll.item<double>(), mean_nll_exact.item<double>(), 3e-5);
  EXPECT_LE(worst_row(found.dx, right.dx), 1.0 / 256);
  EXPECT_LE(worst_row(found.dw, right.dw), 1.0 / 256);
}

TEST_P(LinearCrossEntropyWeightedGpu, InFp8IsNearBf16) {
  if (!test::has_fp8_gemms()) GTEST_SKIP() << "no FP8 tensor cores";
  const auto head_fp8 = fp8_head();
  run_all(head_fp8);  // sets the scales of these targets' gradients
  for (const auto& [scaling, max] :
       {std::pair{&head_fp8.fp8.output_gradient, kE5m2Max}, {&head_fp8.fp8.scaled_input, kFp8Max}})
    at::Tensor(scaling->scale).copy_(scaling->amax * (4 / max));
  head_fp8.gradient.fill_(kBefore);
  const auto found = run_all(head_fp8), bf16 = run_all(head());
  const auto relative = [](const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).to(at::kFloat).norm() / b.to(at::kFloat).norm()).item<double>();
  };
  EXPECT_NEAR(found.loss.item<double>() / bf16.loss.item<double>(), 1, 0.02);
  EXPECT_LE(relative(found.dx, bf16.dx), 0.1);
  EXPECT_LE(relative(found.dw, bf16.dw), 0.1);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearCrossEntropyWeightedGpu, ::testing::Values(kOdd, kChunks),
                         name_of);

class LinearCrossEntropyMemoryGpu : public LinearCrossEntropyGpu {};

TEST_P(LinearCrossEntropyMemoryGpu, OneChunksLogitsAreThereAtOnce) {
  const auto of_head = head();
  run(of_head);  // chooses the GEMM algorithms, with its own operands
  const GpuMemoryTrial trial(/*spare=*/0);
  run(of_head);
  wait_for_gpu();
  EXPECT_LT(trial.peak() - trial.before(), GetParam().rows * GetParam().vocab * 2 * 3 / 4);
}

TEST_P(LinearCrossEntropyMemoryGpu, OneChunksLogitsAreThereAtOnceWithoutGradients) {
  const auto of_head = head();
  const auto right = run(of_head).loss;
  const at::NoGradGuard no_grad;
  const auto loss = [&] { return linear_cross_entropy(x, of_head, targets, options()); };
  const auto found = loss();  // chooses the GEMM algorithms, with its own operands
  EXPECT_NEAR(found.item<double>(), right.item<double>(), 1e-4);
  const GpuMemoryTrial trial(/*spare=*/0);
  loss();
  wait_for_gpu();
  EXPECT_LT(trial.peak() - trial.before(), GetParam().rows * GetParam().vocab * 2 * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearCrossEntropyMemoryGpu,
                         ::testing::Values(Case{.rows = 131072, .dim = 64, .vocab = 8192}),
                         name_of);

class LinearCrossEntropyTargetsGpu : public LinearCrossEntropyGpu {};

TEST_P(LinearCrossEntropyTargetsGpu, ATargetThatIsNoTokenGivesNaNAndTouchesNothing) {
  targets[3].fill_(GetParam().vocab + 5);
  targets[4].fill_(-1);
  const auto found = run();
  EXPECT_TRUE(found.loss.isnan().item<bool>());
  EXPECT_TRUE(found.dx.isfinite().all().item<bool>());
  EXPECT_TRUE(found.dw.isfinite().all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearCrossEntropyTargetsGpu,
                         ::testing::Values(Case{.rows = 64, .dim = 64, .vocab = 8192}));

}  // namespace
}  // namespace tg
