#include "ops/mlp/leaky_relu_squared.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/kernels.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"
#include "ops/operands.h"

namespace tg {

namespace {

at::Tensor fused_forward(const at::Tensor& x, double slope) {
  auto y = at::empty_like(x);
  cuda::leaky_relu_squared_forward(const_data(x), mutable_data(y), x.numel(),
                                   static_cast<float>(slope), dtype_of(x), current_stream(x));
  return y;
}

at::Tensor fused_backward(const at::Tensor& x, const at::Tensor& upstream, double slope) {
  const auto dy = aligned_contiguous(upstream);
  auto dx = at::empty_like(x);
  cuda::leaky_relu_squared_backward(const_data(x), const_data(dy), mutable_data(dx), x.numel(),
                                    static_cast<float>(slope), dtype_of(x), current_stream(x));
  return dx;
}

at::Tensor activate(const at::Tensor& x, double slope) {
  return slope == 0 ? at::relu(x) : at::leaky_relu(x, slope);
}

// Saves only x: autograd would save u as well. x is not recoverable from u, which is positive for
// both signs of x if the slope is negative.
struct LeakyReluSquared : torch::autograd::Function<LeakyReluSquared> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double slope) {
    context->save_for_backward({x});
    context->saved_data["slope"] = slope;
    return use_kernels(x) ? fused_forward(x, slope) : activate(x, slope).square_();
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto x = context->get_saved_variables()[0];
    const double slope = context->saved_data["slope"].toDouble();
    return {leaky_relu_squared_backward(x, upstream[0], slope), at::Tensor()};
  }
};

}  // namespace

at::Tensor leaky_relu_squared(const at::Tensor& x, double slope) {
  return LeakyReluSquared::apply(use_kernels(x) ? aligned_contiguous(x) : x, slope);
}

at::Tensor leaky_relu_squared_backward(const at::Tensor& x, const at::Tensor& dy, double slope) {
  if (use_kernels(x)) return fused_backward(x, dy, slope);
  const auto du = activate(x, slope).mul_(dy).mul_(2);
  return at::leaky_relu_backward(du, x, slope, /*self_is_result=*/false);
}

}  // namespace tg
