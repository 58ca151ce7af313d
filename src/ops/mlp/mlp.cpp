#include "ops/mlp/mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/kernels.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp_hopper.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool supported(const at::Tensor& x, const Weight& up, const Weight& down) {
  return supports_hopper_gemm(x, up.value) && supports_hopper_gemm(x, down.value);
}

struct FusedMlp : torch::autograd::Function<FusedMlp> {
  static cuda::MlpShape shape_of(const at::Tensor& x, const at::Tensor& up) {
    return {.rows = static_cast<int>(x.numel() / x.size(-1)),
            .dim = static_cast<int>(up.size(1)),
            .hidden = static_cast<int>(up.size(0))};
  }
  // leaky_relu_squared(x·upᵀ); also writes `signs` if defined.
  static at::Tensor activate(const at::Tensor& x, const at::Tensor& up, double slope,
                             const at::Tensor& signs) {
    auto sizes = x.sizes().vec();
    sizes.back() = up.size(0);
    auto activation = at::empty(sizes, x.options());
    cuda::mlp_up(shape_of(x, up), const_data(x), const_data(up), static_cast<float>(slope),
                 mutable_data(activation), mutable_data(signs), dtype_of(x), current_stream(x));
    return activation;
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& up,
                            const at::Tensor& up_gradient, const at::Tensor& down,
                            const at::Tensor& down_gradient, double slope) {
    const auto signs =
        at::empty({cuda::mlp_sign_bytes(shape_of(x, up))}, x.options().dtype(at::kByte));
    const auto activation = activate(x, up, slope, signs);
    context->save_for_backward({x, up, down, activation, signs});
    context->saved_data["up_gradient"] = up_gradient;
    context->saved_data["down_gradient"] = down_gradient;
    context->saved_data["slope"] = slope;
    return at::linear(activation, down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &up = saved[1], &down = saved[2];
    const auto activation = as_rows(saved[3]), dy = as_rows(aligned_contiguous(upstream[0]));
    accumulate_gemm(context->saved_data["down_gradient"].toTensor(), dy.t(), activation);
    // Overwrites the activation, which is no longer needed.
    torch::autograd::impl::bump_version(saved[3]);
    const auto& gradient = activation;
    cuda::mlp_down_backward(shape_of(x, up), const_data(dy), const_data(down),
                            const_data(activation), const_data(saved[4]),
                            static_cast<float>(context->saved_data["slope"].toDouble()),
                            mutable_data(gradient), dtype_of(x), current_stream(x));
    const auto dx = linear_backward(x, up, context->saved_data["up_gradient"].toTensor(), gradient);
    const at::Tensor none;
    return {dx, none, none, none, none, none};
  }
};

}  // namespace

at::Tensor mlp(const at::Tensor& x, const Weight& up, const Weight& down, double slope) {
  if (supported(x, up, down)) {
    if (!at::GradMode::is_enabled())
      return at::linear(FusedMlp::activate(aligned_contiguous(x), up.value, slope, {}), down.value);
    if (up.gradient.defined() && down.gradient.defined()) {
      assert(x.requires_grad());  // else autograd would not call backward
      return FusedMlp::apply(aligned_contiguous(x), up.value, up.gradient, down.value,
                             down.gradient, slope);
    }
  }
  return linear(leaky_relu_squared(linear(x, up), slope), down);
}

}  // namespace tg
