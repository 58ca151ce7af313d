#include "ops/mlp/leaky_relu_squared.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/kernels.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedLeakyReluSquared : torch::autograd::Function<FusedLeakyReluSquared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double slope) {
    context->save_for_backward({x});
    context->saved_data["slope"] = slope;
    auto y = at::empty_like(x);
    cuda::leaky_relu_squared_forward(const_data(x), mutable_data(y), x.numel(),
                                     static_cast<float>(slope), dtype_of(x), current_stream(x));
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto x = context->get_saved_variables()[0];
    const auto slope = static_cast<float>(context->saved_data["slope"].toDouble());
    const auto dy = aligned_contiguous(upstream[0]);
    auto dx = at::empty_like(x);
    cuda::leaky_relu_squared_backward(const_data(x), const_data(dy), mutable_data(dx), x.numel(),
                                      slope, dtype_of(x), current_stream(x));
    return {dx, at::Tensor()};
  }
};

// Keeps x alone: autograd would keep u as well. x cannot be told from u, which is positive on both
// sides where the slope is negative.
struct LeakyReluSquared : torch::autograd::Function<LeakyReluSquared> {
  static at::Tensor activate(const at::Tensor& x, double slope) {
    return slope == 0 ? at::relu(x) : at::leaky_relu(x, slope);
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double slope) {
    context->save_for_backward({x});
    context->saved_data["slope"] = slope;
    return activate(x, slope).square_();
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto x = context->get_saved_variables()[0];
    const double slope = context->saved_data["slope"].toDouble();
    const auto du = activate(x, slope).mul_(upstream[0]).mul_(2);
    return {at::leaky_relu_backward(du, x, slope, /*self_is_result=*/false), at::Tensor()};
  }
};

}  // namespace

at::Tensor leaky_relu_squared(const at::Tensor& x, double slope) {
  if (use_kernels(x)) return FusedLeakyReluSquared::apply(aligned_contiguous(x), slope);
  return LeakyReluSquared::apply(x, slope);
}

}  // namespace tg
