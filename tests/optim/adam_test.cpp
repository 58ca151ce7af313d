#include "optim/adam.h"

#include "tests/comm/ranks.h"
#include "tests/optim/helpers.h"
#include "tests/optim/records.h"

namespace tg {
namespace {

constexpr AdamOptions kOptions{
    .lr = 0.03, .weight_decay = 0.1, .beta1 = 0.65, .beta2 = 0.95, .epsilon = 1e-8};

// Adam on one rank.
class AdamAlone {
 public:
  explicit AdamAlone(const NamedTensors& parameters, const AdamOptions& options = kOptions)
      : table_(test::table_of(parameters, {.rule = UpdateRule::adam})),
        adam_(test::rows_of(table_), options, alone_) {}
  void step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients) {
    adam_.step(scalars, gradients, /*clip=*/{});
  }
  NamedTensors state() const { return adam_.replicated_state(); }
  NamedTensors sharded_state() const { return adam_.sharded_state(); }

 private:
  Communicator alone_;
  ParameterTable table_;
  Adam adam_;
};

TEST(Adam, GivesTheReferenceValues) {
  const auto reference = test::record_43();
  for (const auto& [name, multiplier] : {std::pair{"table", 75.0}, {"scalars", 5.0}}) {
    const auto value_of = [&, name = std::string(name)](const char* what, int step) {
      return reference.at("adam." + name + "." + what + std::to_string(step));
    };
    const auto parameter = value_of("p", 0).clone().set_requires_grad(true);
    auto options = kOptions;
    options.lr = 0.008 * multiplier;
    options.weight_decay = 0;
    AdamAlone adam({{"w", parameter}}, options);
    for (int step = 1; step <= 3; ++step) {
      adam.step(test::scalars(1), {value_of("g", step)});
      // fp32, of steps of up to 0.6.
      EXPECT_TRUE(test::is_close(parameter, value_of("p", step), 0, 1e-6))
          << name << " step " << step;
    }
  }
}

TEST(Adam, GivesTheReferenceValuesWithCautiousDecay) {
  const auto reference = test::record_89();
  const auto value_of = [&](const char* what, int step) {
    return reference.at("adam." + std::string(what) + std::to_string(step));
  };
  const auto parameter = value_of("p", 0).clone().set_requires_grad(true);
  AdamAlone adam({{"w", parameter}}, {.lr = 0.008 * 75,
                                      .weight_decay = 0.005 * 5,
                                      .beta1 = 0.75,
                                      .beta2 = 0.95,
                                      .epsilon = 1e-10,
                                      .cautious = true});
  for (int step = 1; step <= 3; ++step) {
    adam.step(test::scalars(1.52), {value_of("g", step)});
    // fp32, of steps of up to 0.9.
    EXPECT_TRUE(test::is_close(parameter, value_of("p", step), 0, 1e-6)) << "step " << step;
  }
}

// A zero gradient has no update and so no decay, unlike Muon's cautious decay.
TEST(Adam, DecaysBySquaredRatesWhereItIsCautiousAndTheUpdateShrinksTheWeight) {
  for (const auto dtype : {at::kDouble, at::kBFloat16}) {
    auto options = kOptions;
    options.cautious = true;
    const auto parameter = test::leaf({4, 6}, 11, dtype);
    AdamAlone adam({{"w", parameter}}, options);
    auto p = parameter.detach().to(at::kDouble).clone(), m = at::zeros_like(p),
         v = at::zeros_like(p);
    for (int t = 1; t <= 4; ++t) {
      const double lr = options.lr * 0.5;
      auto g = test::normal({4, 6}, 30 + static_cast<std::uint64_t>(t), dtype);
      g.select(0, 0).zero_();
      adam.step(test::scalars(0.5), {g});
      g = g.to(at::kDouble);
      m = options.beta1 * m + (1 - options.beta1) * g;
      v = options.beta2 * v + (1 - options.beta2) * g * g;
      const double correction =
          std::sqrt(1 - std::pow(options.beta2, t)) / (1 - std::pow(options.beta1, t));
      auto u = lr * correction * m / (v.sqrt() + options.epsilon);
      u = u + at::where(u * p > 0, lr * lr * options.weight_decay * p, 0.0);
      p = (p - u).to(dtype).to(at::kDouble);
      // The moments of bf16 weights are fp32, and a result near a midpoint may round to either
      // side.
      const double tolerance = dtype == at::kDouble ? 1e-13 : 1.0 / 128;
      EXPECT_TRUE(test::is_close(parameter, p, tolerance, 1e-13)) << dtype << " step " << t;
    }
  }
}

// ε is as large as the gradient: divided by the bias correction it would give other numbers.
TEST(Adam, AddsEpsilonToTheRootAsItIs) {
  auto options = kOptions;
  options.epsilon = 1e-3;
  const auto parameter = test::leaf({3, 5}, 1, at::kDouble);
  AdamAlone adam({{"w", parameter}}, options);
  auto p = parameter.detach().clone(), m = at::zeros_like(p), v = at::zeros_like(p);
  for (int t = 1; t <= 5; ++t) {
    const double lr = options.lr * (1 - 0.125 * t);
    const auto g = test::normal({3, 5}, 10 + static_cast<std::uint64_t>(t)) * 1e-3;
    adam.step(test::scalars(1 - 0.125 * t), {g});
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    const double correction =
        std::sqrt(1 - std::pow(options.beta2, t)) / (1 - std::pow(options.beta1, t));
    p = p * (1 - lr * options.weight_decay) - lr * correction * m / (v.sqrt() + options.epsilon);
    EXPECT_TRUE(test::is_close(parameter, p, 1e-13, 1e-13)) << t;
  }
}

TEST(Adam, HalfPrecisionWeightsKeepFullState) {
  const auto parameter = test::leaf({4}, 2, at::kBFloat16);
  AdamAlone adam({{"w", parameter}});
  const auto before = parameter.detach().clone();
  adam.step(test::scalars(1), {test::normal({4}, 3, at::kBFloat16)});
  EXPECT_FALSE(at::equal(parameter.detach(), before));
  EXPECT_EQ(parameter.scalar_type(), at::kBFloat16);
  for (const char* name : {"exp_avg.w", "exp_avg_sq.w"})
    EXPECT_EQ(test::named(adam.state(), name).scalar_type(), at::kFloat);
}

TEST(Adam, ASkippedStepLeavesEveryBit) {
  for (const auto& [dtype, cautious] :
       {std::pair{at::kFloat, false}, {at::kBFloat16, false}, {at::kBFloat16, true}}) {
    const auto parameter = test::leaf({3, 4}, 4, dtype);
    auto options = kOptions;
    options.cautious = cautious;
    AdamAlone adam({{"w", parameter}}, options);
    const auto expect_skipped = [&, dtype = dtype] {
      const auto value = parameter.detach().clone();
      const auto state = test::clones(adam.state());
      for (const double bad : {std::nan(""), HUGE_VAL, 1.0}) {
        adam.step(test::scalars(1, 0, /*skip=*/1), {at::full({3, 4}, bad, dtype)});
        EXPECT_TRUE(test::is_same(parameter.detach(), value)) << bad;
        test::expect_same(adam.state(), state);
      }
    };
    expect_skipped();  // the first one
    adam.step(test::scalars(1), {test::normal({3, 4}, 5, dtype)});
    EXPECT_EQ(test::named(adam.state(), "step.w").item<double>(), 1);
    expect_skipped();
  }
}

TEST(Adam, AParameterWithoutGradientStaysAsItIs) {
  const auto used = test::leaf({3}, 6), unused = test::leaf({3}, 7);
  AdamAlone adam({{"used", used}, {"unused", unused}});
  const auto before = unused.detach().clone();
  adam.step(test::scalars(1), {at::ones({3}), {}});
  EXPECT_TRUE(test::is_same(unused.detach(), before));
  EXPECT_EQ(test::named(adam.state(), "step.unused").item<double>(), 0);
}

TEST(Adam, TwoRanksStepTheirShardsAsOneStepsTheWhole) {
  constexpr std::int64_t kElements = 1 << 20;
  const auto drawn = [](std::uint64_t seed) {
    return test::normal({kElements / 64}, seed, at::kFloat).repeat({16, 4});  // its chunks
  };
  const auto whole = drawn(8).set_requires_grad(true);
  AdamAlone adam({{"w", whole}});
  for (std::uint64_t step = 0; step < 2; ++step) adam.step(test::scalars(1), {drawn(20 + step)});
  test::as_ranks(2, [&](Communicator& communicator) {
    const auto parameter = drawn(8).set_requires_grad(true);
    const auto table = test::table_of({{"w", parameter}}, {.rule = UpdateRule::adam});
    Adam sharded(test::rows_of(table), kOptions, communicator);
    for (std::uint64_t step = 0; step < 2; ++step) {
      const auto own = drawn(20 + step).narrow(0, 8 * communicator.rank(), 8);
      for (const auto& complete : sharded.step(test::scalars(1), {own}, /*clip=*/{})) complete();
    }
    EXPECT_TRUE(test::is_close(parameter, whole, 1e-6, 1e-6));
    EXPECT_EQ(test::named(sharded.replicated_state(), "step.w").item<double>(), 2);
  });
}

}  // namespace
}  // namespace tg
