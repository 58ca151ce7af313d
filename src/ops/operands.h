#pragma once
// Operands of an autograd Function that may be left out.
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <utility>

namespace tg {

// As apply() takes one: an undefined tensor is none.
using Operand = std::optional<at::Tensor>;
inline Operand operand(at::Tensor x) {
  return x.defined() ? Operand(std::move(x)) : std::nullopt;
}
// As forward() reads it: undefined where it was left out.
inline at::Tensor given(const Operand& x) {
  return x.value_or(at::Tensor());
}

// In backward(), which of apply()'s first `count` operands want a gradient; is_given(i) tells of
// operand i, since autograd counts only those that were given.
template <std::size_t count, class IsGiven>
std::array<bool, count> wanted_gradients(const torch::autograd::AutogradContext& context,
                                         IsGiven is_given) {
  std::array<bool, count> wanted{};
  for (std::size_t i = 0, edge = 0; i < count; ++i)
    wanted[i] = is_given(i) && context.needs_input_grad(edge++);
  return wanted;
}

}  // namespace tg
