#pragma once
// Optional inputs of an autograd Function.
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <utility>

namespace tg {

// As apply() takes one: nullopt for an undefined tensor.
using OptionalTensor = std::optional<at::Tensor>;
inline OptionalTensor optional_tensor(at::Tensor x) {
  return x.defined() ? OptionalTensor(std::move(x)) : std::nullopt;
}
// As forward() reads it.
inline at::Tensor or_undefined(const OptionalTensor& x) {
  return x.value_or(at::Tensor());
}

// In backward(), which of apply()'s first `count` inputs need a gradient; is_given(i) tells whether
// input i is defined, since autograd numbers only those.
template <std::size_t count, class IsGiven>
std::array<bool, count> wanted_gradients(const torch::autograd::AutogradContext& context,
                                         IsGiven is_given) {
  std::array<bool, count> wanted{};
  for (std::size_t i = 0, edge = 0; i < count; ++i)
    wanted[i] = is_given(i) && context.needs_input_grad(edge++);
  return wanted;
}

}  // namespace tg
