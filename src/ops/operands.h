#pragma once
// Helpers for autograd Functions: optional inputs and saved values.
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

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

// Inputs of a Function of which some may be undefined, by indices of an enumeration. apply() takes
// the defined ones as a TensorList, since autograd numbers only these.
template <std::size_t count>
struct GivenInputs {
  using Tensors = std::array<at::Tensor, count>;
  std::array<bool, count> given{};

  GivenInputs() = default;
  explicit GivenInputs(const std::array<at::Tensor, count>& inputs) {
    for (std::size_t i = 0; i < count; ++i) given[i] = inputs[i].defined();
  }
  Tensors spread(at::TensorList defined) const {
    Tensors inputs;
    for (std::size_t i = 0, next = 0; i < count; ++i)
      if (given[i]) inputs[i] = defined[next++];
    return inputs;
  }
  // Returns, in backward(), which inputs need a gradient.
  std::array<bool, count> needs_grad(const AutogradContext& context) const {
    std::array<bool, count> needs{};
    for (std::size_t i = 0, edge = 0; i < count; ++i)
      needs[i] = given[i] && context.needs_input_grad(edge++);
    return needs;
  }
  // Returns what backward() does: the gradients that are needed, and none for the `others`
  // arguments of apply() after the list.
  variable_list gradients(const AutogradContext& context, const Tensors& all,
                          std::size_t others) const {
    const auto needs = needs_grad(context);
    variable_list result;
    for (std::size_t i = 0; i < count; ++i)
      if (given[i]) result.push_back(needs[i] ? all[i] : at::Tensor());
    result.resize(result.size() + others);
    return result;
  }
};
// The list for apply().
template <std::size_t count>
std::vector<at::Tensor> defined_of(const std::array<at::Tensor, count>& inputs) {
  std::vector<at::Tensor> defined;
  for (const auto& input : inputs)
    if (input.defined()) defined.push_back(input);
  return defined;
}
// The tensors that forward() saved, `count` of them.
template <std::size_t count>
std::array<at::Tensor, count> saved_tensors(const AutogradContext& context) {
  std::array<at::Tensor, count> saved;
  std::ranges::copy(context.get_saved_variables(), saved.begin());
  return saved;
}

}  // namespace tg
