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
  static at::Tensor empty_signs(const at::Tensor& x, const at::Tensor& up) {
    return at::empty({cuda::mlp_sign_bytes(shape_of(x, up))}, x.options().dtype(at::kByte));
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& up,
                            const at::Tensor& up_gradient, const at::Tensor& down,
                            const at::Tensor& down_gradient, double slope, bool recompute) {
    const auto signs = recompute ? at::Tensor() : empty_signs(x, up);
    const auto activation = activate(x, up, slope, signs);
    context->save_for_backward({x, up, down, recompute ? at::Tensor() : activation, signs});
    context->saved_data["up_gradient"] = up_gradient;
    context->saved_data["down_gradient"] = down_gradient;
    context->saved_data["slope"] = slope;
    return at::linear(activation, down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &up = saved[1], &down = saved[2];
    const double slope = context->saved_data["slope"].toDouble();
    const bool recompute = !saved[3].defined();
    const auto signs = recompute ? empty_signs(x, up) : saved[4];
    const auto activation = as_rows(recompute ? activate(x, up, slope, signs) : saved[3]);
    const auto dy = as_rows(aligned_contiguous(upstream[0]));
    accumulate_gemm(context->saved_data["down_gradient"].toTensor(), dy.t(), activation);
    // Overwrites the activation, which is no longer needed.
    if (!recompute) torch::autograd::impl::bump_version(saved[3]);
    const auto& gradient = activation;
    cuda::mlp_down_backward(shape_of(x, up), const_data(dy), const_data(down),
                            const_data(activation), const_data(signs), static_cast<float>(slope),
                            mutable_data(gradient), dtype_of(x), current_stream(x));
    const auto dx = linear_backward(x, up, context->saved_data["up_gradient"].toTensor(), gradient);
    const at::Tensor none;
    return {dx, none, none, none, none, none, none};
  }
};

// linear(leaky_relu_squared(linear(x, up)), down) that keeps x·upᵀ, but not its activation.
struct RecomputingMlp : torch::autograd::Function<RecomputingMlp> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& up,
                            const at::Tensor& up_gradient, const at::Tensor& down,
                            const at::Tensor& down_gradient, double slope) {
    const auto hidden = at::linear(x, up);
    context->save_for_backward({x, up, down, hidden});
    context->saved_data["up_gradient"] = up_gradient;
    context->saved_data["down_gradient"] = down_gradient;
    context->saved_data["slope"] = slope;
    return at::linear(leaky_relu_squared(hidden, slope), down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &up = saved[1], &down = saved[2], &hidden = saved[3];
    const double slope = context->saved_data["slope"].toDouble();
    const auto d_activation =
        linear_backward(leaky_relu_squared(hidden, slope), down,
                        context->saved_data["down_gradient"].toTensor(), upstream[0]);
    const auto d_hidden = leaky_relu_squared_backward(hidden, d_activation, slope);
    const auto dx = linear_backward(x, up, context->saved_data["up_gradient"].toTensor(), d_hidden);
    const at::Tensor none;
    return {dx, none, none, none, none, none};
  }
};

}  // namespace

at::Tensor mlp(const at::Tensor& x, const Weight& up, const Weight& down, double slope,
               bool recompute) {
  const bool fused = supported(x, up, down);
  if (fused && !at::GradMode::is_enabled())
    return at::linear(FusedMlp::activate(aligned_contiguous(x), up.value, slope, {}), down.value);
  if (at::GradMode::is_enabled() && up.gradient.defined() && down.gradient.defined()) {
    assert(x.requires_grad());  // else autograd would not call backward
    if (fused)
      return FusedMlp::apply(aligned_contiguous(x), up.value, up.gradient, down.value,
                             down.gradient, slope, recompute);
    if (recompute)
      return RecomputingMlp::apply(x, up.value, up.gradient, down.value, down.gradient, slope);
  }
  return linear(leaky_relu_squared(linear(x, up), slope), down);
}

}  // namespace tg
