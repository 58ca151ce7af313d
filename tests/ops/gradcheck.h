#pragma once
// Compares autograd's gradients with central differences in fp64.
#include <array>
#include <concepts>
#include <functional>
#include <tuple>

#include "tests/ops/tensors.h"

namespace tg::test {

// Checks the gradients of all leaves that `call` reads, as gradient_is_right() does for arguments.
inline testing::AssertionResult gradients_are_right(const std::function<at::Tensor()>& call,
                                                    const std::vector<at::Tensor>& leaves) {
  constexpr double kStep = 1e-5, kTolerance = 1e-7;
  const auto first = call();
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
      const double above = (call() * weights).sum().item<double>();
      values[j] = value - kStep;
      const double below = (call() * weights).sum().item<double>();
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

// Differentiates the sum of the elements of f(inputs...), each with a random weight, by every
// element of the inputs. For a step of h = 1e-5 the truncation error is h²·f‴/6, about 1e-10, and
// the rounding error 1e-16·f/h, about 1e-11. A tolerance of 1e-7 of the largest gradient allows for
// sums and large third derivatives, but not for a wrong formula.
template <class F, std::same_as<at::Tensor>... Inputs>
testing::AssertionResult gradient_is_right(const F& f, const Inputs&... inputs) {
  const auto leaf = [](const at::Tensor& input) {
    return at::Tensor(input.detach().to(at::kDouble).clone().contiguous().set_requires_grad(true));
  };
  const std::array leaves{leaf(inputs)...};
  return gradients_are_right([&] { return std::apply(f, leaves); }, {leaves.begin(), leaves.end()});
}

}  // namespace tg::test
