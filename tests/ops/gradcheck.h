#pragma once
// Autograd's gradients against central differences, in fp64.
#include <functional>

#include "tests/ops/tensors.h"

namespace tg::test {

using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Differentiates the sum of f's outputs, each with a random weight, by every element of `inputs`.
// A step h = 1e-5 errs by h²·f‴/6, about 1e-10, and by rounding, 1e-16·f/h, about 1e-11: 1e-7 of
// the largest gradient leaves room for sums and steep third derivatives, and no wrong formula.
inline testing::AssertionResult gradient_is_right(const Function& f,
                                                  const std::vector<at::Tensor>& inputs) {
  constexpr double kStep = 1e-5, kTolerance = 1e-7;
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs) {
    leaves.push_back(input.detach().to(at::kDouble).clone().contiguous().set_requires_grad(true));
  }
  const auto first = f(leaves);
  const auto weights = normal(first.sizes(), 99);
  (first * weights).sum().backward();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].grad().defined()) return testing::AssertionFailure() << "no gradient " << i;
    auto values = leaves[i].detach().view(-1);
    std::vector<double> differences;
    for (std::int64_t j = 0; j < values.numel(); ++j) {
      const double value = values[j].item<double>();
      values[j] = value + kStep;
      const double above = (f(leaves) * weights).sum().item<double>();
      values[j] = value - kStep;
      const double below = (f(leaves) * weights).sum().item<double>();
      values[j] = value;
      differences.push_back((above - below) / (2 * kStep));
    }
    const auto expected = tensor_of(differences, leaves[i].sizes());
    const double largest = 1 + expected.abs().max().item<double>();
    const auto result = is_close(leaves[i].grad(), expected, 0, kTolerance * largest);
    if (!result) {
      return testing::AssertionFailure() << "gradient of input " << i << ": " << result.message();
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace tg::test
