#include "model/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The function, and which of its inputs and outputs are defined: autograd's variable lists hold
// only those.
struct Recomputation : torch::CustomClassHolder {
  TensorFunction function;
  std::vector<bool> takes, gives;

  variable_list run(const variable_list& defined) const { return function(spread(defined, takes)); }
  static variable_list spread(const variable_list& defined, const std::vector<bool>& where) {
    variable_list all(where.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < where.size(); ++i) {
      if (where[i]) all[i] = defined[next++];
    }
    return all;
  }
  static std::vector<bool> which(const variable_list& all) {
    std::vector<bool> where;
    for (const auto& tensor : all) where.push_back(tensor.defined());
    return where;
  }
  static variable_list defined(const variable_list& all) {
    variable_list found;
    std::ranges::copy_if(all, std::back_inserter(found), &at::Tensor::defined);
    return found;
  }
};

struct Recomputed : torch::autograd::Function<Recomputed> {
  static variable_list forward(AutogradContext* context,
                               const c10::intrusive_ptr<Recomputation>& recomputation,
                               at::TensorList inputs) {
    const auto in = inputs.vec();
    const auto all = recomputation->run(in);
    recomputation->gives = Recomputation::which(all);
    auto out = Recomputation::defined(all);
    // Detaches the outputs from inputs and views, which autograd would track: gradients go through
    // backward().
    for (auto& tensor : out) tensor = tensor.variable_data();
    context->save_for_backward(in);
    context->saved_data["recomputation"] = at::IValue::make_capsule(recomputation);
    context->set_materialize_grads(false);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto recomputation = c10::static_intrusive_pointer_cast<Recomputation>(
        context->saved_data["recomputation"].toCapsule());
    variable_list in;
    for (const auto& input : context->get_saved_variables()) {
      in.push_back(input.detach().requires_grad_(input.requires_grad()));
    }
    variable_list roots, gradients;
    {
      const at::AutoGradMode with_graph(true);
      const auto out = Recomputation::defined(recomputation->run(in));
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (!upstream[i].defined() || !out[i].requires_grad()) continue;
        roots.push_back(out[i]);
        gradients.push_back(upstream[i]);
      }
    }
    torch::autograd::backward(roots, gradients);
    variable_list found(1);  // the gradient of `recomputation`: none
    for (const auto& input : in) found.push_back(input.grad());
    return found;
  }
};

}  // namespace

std::vector<at::Tensor> recomputed(TensorFunction function, const std::vector<at::Tensor>& inputs) {
  if (!at::GradMode::is_enabled()) return function(inputs);
  const auto recomputation = c10::make_intrusive<Recomputation>();
  recomputation->function = std::move(function);
  recomputation->takes = Recomputation::which(inputs);
  const auto out = Recomputed::apply(recomputation, at::TensorList(Recomputation::defined(inputs)));
  return Recomputation::spread(out, recomputation->gives);
}

}  // namespace tg
