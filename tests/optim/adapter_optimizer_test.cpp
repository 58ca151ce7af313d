#include "optim/adapter_optimizer.h"

#include <cmath>

#include "tests/optim/helpers.h"

namespace tg {
namespace {

// One element through the textbook's steps, in fp64.
struct Element {
  double p, m = 0, v = 0;
  int step = 0;

  void adamw(double g, const AdapterOptimizerOptions& options) {
    ++step;
    p *= 1 - options.lr * options.weight_decay;
    m = options.beta1 * m + (1 - options.beta1) * g;
    v = options.beta2 * v + (1 - options.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(options.beta1, step));
    const double v_hat = v / (1 - std::pow(options.beta2, step));
    p -= options.lr * m_hat / (std::sqrt(v_hat) + 1e-10);
  }
  void sgd(double g, const AdapterOptimizerOptions& options) {
    m = options.beta1 * m + g + options.weight_decay * p;
    p -= options.lr * m;
  }
};

constexpr std::int64_t kCount = 11;

// Three steps, a reset and two more. Gradients of 1e-10 show ε, gradients of 0 that idle rows
// decay.
void expect_textbook(const AdapterOptimizerOptions& options) {
  const auto parameters = test::leaf({kCount}, 1);
  AdapterOptimizer optimizer(parameters, options);
  std::vector<Element> elements;
  for (const double value : test::values_of(parameters)) elements.push_back({value});
  for (std::uint64_t step = 0; step < 5; ++step) {
    if (step == 3) {
      optimizer.reset();
      for (auto& element : elements) element = {.p = element.p};
    }
    const auto gradient = test::normal({kCount}, 10 + step, at::kFloat);
    gradient[3] = 1e-10;
    gradient[4] = 0;
    test::set_gradient(parameters, gradient);
    optimizer.step();
    const auto g = test::values_of(gradient);
    std::vector<double> expected;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (options.rule == TttOptimizer::adam)
        elements[i].adamw(g[i], options);
      else
        elements[i].sgd(g[i], options);
      expected.push_back(elements[i].p);
    }
    // fp32 weights of at most 3 round by 2e-7 a step.
    EXPECT_TRUE(test::is_close(parameters.detach(), test::tensor_of(expected, {kCount}), 0, 2e-6))
        << "step " << step;
  }
}

TEST(AdapterOptimizer, IsAdamWWithTheSmallEpsilonWhoseStateAResetZeroes) {
  expect_textbook({.lr = 0.03, .beta1 = 0, .beta2 = 0.99, .weight_decay = 0.5});
  expect_textbook({.lr = 0.03, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0});
}

TEST(AdapterOptimizer, IsSgdWhoseDecayEntersTheMomentum) {
  expect_textbook(
      {.rule = TttOptimizer::sgd, .lr = 0.03, .beta1 = 0.9, .beta2 = 0, .weight_decay = 0.5});
  expect_textbook(
      {.rule = TttOptimizer::sgd, .lr = 0.03, .beta1 = 0, .beta2 = 0, .weight_decay = 0});
}

}  // namespace
}  // namespace tg
