#include "optim/adam.h"
#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"

namespace tg {
namespace {

constexpr AdamOptions kOptions{
    .lr = 0.03, .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};

// AdamW on one rank.
class AdamWAlone {
 public:
  explicit AdamWAlone(const NamedTensors& parameters, const AdamOptions& options = kOptions)
      : table_(test::table_of(parameters, Update::scalar)),
        adamw_(test::rows_of(table_), options, alone_) {}
  void step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients) {
    adamw_.step(scalars, gradients, /*clip=*/{});
  }
  NamedTensors state() const { return adamw_.replicated_state(); }
  NamedTensors sharded_state() const { return adamw_.sharded_state(); }

 private:
  Communicator alone_;
  ParameterTable table_;
  AdamW adamw_;
};

// One element through the textbook's steps, in fp64.
struct Element {
  double p, m = 0, v = 0;
  int step = 0;
  void update(double g, double lr, const AdamOptions& options) {
    ++step;
    p *= 1 - lr * options.weight_decay;
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(options.beta1, step));
    const double v_hat = v / (1 - std::pow(options.beta2, step));
    p -= lr * m_hat / (std::sqrt(v_hat) + options.epsilon);
  }
};

void expect_textbook(at::ScalarType dtype, const AdamOptions& options, double gradient_size,
                     double tolerance) {
  const auto parameter = test::leaf({3, 5}, 1, dtype);
  AdamWAlone adamw({{"w", parameter}}, options);
  std::vector<Element> elements;
  for (const double value : test::values_of(parameter)) elements.push_back({value});
  for (int step = 0; step < 7; ++step) {
    const double scale = 1.0 - 0.1 * step;
    const auto gradient =
        (test::normal({3, 5}, 10 + static_cast<std::uint64_t>(step)) * gradient_size).to(dtype);
    adamw.step(test::scalars(scale), {gradient});
    const auto g = test::values_of(gradient);
    std::vector<double> expected;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      elements[i].update(g[i], options.lr * scale, options);
      expected.push_back(elements[i].p);
    }
    EXPECT_TRUE(test::is_close(parameter, test::tensor_of(expected, {3, 5}), 0, tolerance))
        << "step " << step;
  }
}

TEST(AdamW, FollowsTheTextbook) {
  // The rate is an fp32 scalar, 2^-24 relative of steps of 0.03; fp32 weights round by 1e-7.
  expect_textbook(at::kDouble, kOptions, 1, 1e-7);
  expect_textbook(at::kFloat, kOptions, 1, 2e-6);
}

TEST(AdamW, EpsilonStandsOutsideTheRoot) {
  auto options = kOptions;
  options.epsilon = 1e-3;  // as large as the gradient: sqrt(v + ε) would be another number
  expect_textbook(at::kDouble, options, 1e-3, 1e-7);
}

TEST(AdamW, HalfPrecisionWeightsKeepHalfPrecisionState) {
  const auto parameter = test::leaf({4}, 2, at::kBFloat16);
  AdamWAlone adamw({{"w", parameter}});
  const auto state = adamw.state();
  EXPECT_EQ(test::named(state, "exp_avg.w").scalar_type(), at::kBFloat16);
  EXPECT_EQ(test::named(state, "exp_avg_sq.w").scalar_type(), at::kBFloat16);
  EXPECT_EQ(test::named(state, "step.w").scalar_type(), at::kFloat);
  // Weights of up to 2 and the moments round by 2^-8 relative in each of the seven steps.
  expect_textbook(at::kBFloat16, kOptions, 1, 0.05);
}

TEST(AdamW, StateSharesStorageAndCountsSteps) {
  const auto parameter = test::leaf({2}, 3);
  AdamWAlone adamw({{"w", parameter}});
  const auto state = adamw.state();
  ASSERT_EQ(state.size(), 3u);
  const auto gradient = test::tensor_of({1, -2}, {2}, at::kFloat);
  adamw.step(test::scalars(1), {gradient});
  EXPECT_TRUE(test::is_close(test::named(state, "exp_avg.w"), gradient * 0.1, 1e-6, 0));
  EXPECT_TRUE(
      test::is_close(test::named(state, "exp_avg_sq.w"), gradient * gradient * 0.05, 1e-6, 0));
  EXPECT_EQ(test::named(state, "step.w").item<double>(), 1);
}

TEST(AdamW, AParameterWithoutAGradientIsLeftAloneUndecayed) {
  const auto idle = test::leaf({3}, 4), busy = test::leaf({3}, 5);
  AdamWAlone adamw({{"idle", idle}, {"busy", busy}});
  const auto before = idle.detach().clone(), busy_before = busy.detach().clone();
  adamw.step(test::scalars(1), {at::Tensor(), at::ones({3})});
  EXPECT_TRUE(test::is_same(idle.detach(), before));
  EXPECT_FALSE(at::equal(busy.detach(), busy_before));
  EXPECT_EQ(test::named(adamw.state(), "step.idle").item<double>(), 0);
  AdamWAlone alone({{"idle", idle}});
  alone.step(test::scalars(1), {at::Tensor()});
  EXPECT_TRUE(test::is_same(idle.detach(), before));
}

TEST(AdamW, ASkippedStepLeavesEveryBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto parameter = test::leaf({4, 3}, 6, dtype), twin = test::leaf({4, 3}, 6, dtype);
    AdamWAlone adamw({{"w", parameter}}), other({{"w", twin}});
    const auto first = test::normal({4, 3}, 7), second = test::normal({4, 3}, 8);
    const auto step = [&](AdamWAlone& optimizer, const at::Tensor& gradient, double skip) {
      optimizer.step(test::scalars(1, 0, skip), {gradient.to(dtype)});
    };
    step(adamw, first, 0);
    const auto state = test::clones(adamw.state());
    const auto value = parameter.detach().clone();
    step(adamw, at::full({4, 3}, std::nan("")), 1);
    step(adamw, first, 1);
    EXPECT_TRUE(test::is_same(parameter.detach(), value));
    test::expect_same(adamw.state(), state);
    // And what follows is as if it had not been.
    step(adamw, second, 0);
    step(other, first, 0);
    step(other, second, 0);
    EXPECT_TRUE(test::is_same(parameter.detach(), twin.detach()));
  }
}

// A parameter that is large enough to be sharded, in two chunks, on three ranks.
TEST(AdamW, AShardStepsAsItsPartOfTheWholeAndNamesItsStateByChunk) {
  constexpr std::int64_t kElements = (1 << 20) + 6;
  const auto drawn = [](std::uint64_t seed) {
    return test::normal({kElements / 47}, seed, at::kFloat).repeat(48).narrow(0, 0, kElements);
  };
  const auto gradient = [&](std::uint64_t step) { return drawn(20 + step).view({2, -1}); };
  const auto twin = drawn(9).set_requires_grad(true);
  AdamWAlone all({{"w", twin}});
  for (std::uint64_t step = 0; step < 3; ++step) all.step(test::scalars(1), {gradient(step)});
  test::as_ranks(3, [&](Communicator& communicator) {
    const int rank = communicator.rank(), chunks = rank < 2 ? 1 : 0;
    const auto parameter = drawn(9).set_requires_grad(true);
    const auto table = test::table_of({{"w", parameter}}, Update::scalar);
    AdamW adamw(test::rows_of(table), kOptions, communicator);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const auto own = gradient(step).narrow(0, rank, chunks);
      for (const auto& complete : adamw.step(test::scalars(1), {own}, /*clip=*/{})) complete();
    }
    // fp32: where a vector of the CPU's kernel ends, it rounds otherwise.
    EXPECT_TRUE(test::is_close(parameter, twin, 1e-6, 1e-6));
    const auto state = adamw.sharded_state();
    EXPECT_EQ(state.size(), 2u * static_cast<unsigned>(chunks));
    for (const auto& [name, value] : state) {
      const auto expected = test::named(all.sharded_state(), name);
      EXPECT_TRUE(test::is_close(value, expected, 1e-6, 1e-6)) << name << " on rank " << rank;
      EXPECT_TRUE(name.ends_with("w." + std::to_string(rank))) << name;
    }
    // The steps are counted alike on every rank, also on one without a chunk.
    const auto replicated = adamw.replicated_state();
    ASSERT_EQ(replicated.size(), 1u);
    EXPECT_EQ(test::named(replicated, "step.w").item<double>(), 3);
  });
}

}  // namespace
}  // namespace tg
