#pragma once
// Helpers for autograd Functions: optional inputs and saved values.
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>
#include <utility>

namespace tg {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// An optional input as apply() takes it: nullopt for an undefined tensor.
using OptionalTensor = std::optional<at::Tensor>;
inline OptionalTensor optional_tensor(at::Tensor x) {
  return x.defined() ? OptionalTensor(std::move(x)) : std::nullopt;
}
// An optional input as forward() reads it.
inline at::Tensor or_undefined(const OptionalTensor& x) {
  return x.value_or(at::Tensor());
}

// Wraps any value for AutogradContext::saved_data, and unwraps it.
template <class T>
struct Capsule : torch::CustomClassHolder {
  explicit Capsule(T wrapped) : value(std::move(wrapped)) {}
  T value;
};
template <class T>
at::IValue in_capsule(T value) {
  return at::IValue::make_capsule(c10::make_intrusive<Capsule<T>>(std::move(value)));
}
template <class T>
T from_capsule(const at::IValue& saved) {
  return c10::static_intrusive_pointer_cast<Capsule<T>>(saved.toCapsule())->value;
}

// Returns, in backward(), which of apply()'s first `count` inputs need a gradient. is_given(i)
// tells whether input i is defined, since autograd numbers only the defined ones.
template <std::size_t count, class IsGiven>
std::array<bool, count> needed_gradients(const AutogradContext& context, IsGiven is_given) {
  std::array<bool, count> needs_grad{};
  for (std::size_t i = 0, edge = 0; i < count; ++i)
    needs_grad[i] = is_given(i) && context.needs_input_grad(edge++);
  return needs_grad;
}

}  // namespace tg
