#include "ops/leaky_relu_squared.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/fused.h"
#include "ops/kernels.h"

namespace tg {

namespace {

struct FusedLeakyReluSquared : torch::autograd::Function<FusedLeakyReluSquared> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            double slope) {
    context->save_for_backward({x});
    context->saved_data["slope"] = slope;
    return leaky_relu_squared_forward_cuda(x, slope);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list upstream) {
    const auto x = context->get_saved_variables()[0];
    const double slope = context->saved_data["slope"].toDouble();
    return {leaky_relu_squared_backward_cuda(upstream[0].contiguous(), x, slope), at::Tensor()};
  }
};

}  // namespace

at::Tensor leaky_relu_squared(const at::Tensor& x, double slope) {
  if (use_kernels(x)) return FusedLeakyReluSquared::apply(x.contiguous(), slope);
  const auto u = slope == 0 ? at::relu(x) : at::leaky_relu(x, slope);
  return u * u;
}

}  // namespace tg
