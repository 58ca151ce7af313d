#include "ops/mlp/mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/gemm/gemm.h"
#include "ops/kernels.h"
#include "ops/mlp/fp8_mlp.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"
#include "ops/operands.h"

namespace tg {

namespace {

// Saves the activation and its signs, unless `recompute`. Kernel::hopper computes the activation
// and its gradient in GEMM epilogues, Kernel::cuda after the GEMMs.
struct FusedMlp : torch::autograd::Function<FusedMlp> {
  struct Call {
    Weight up, down;
    float slope;
    bool recompute;
    Kernel kernel;
  };
  // Returns leaky_relu_squared(x·upᵀ); also writes `signs` if defined.
  static at::Tensor activate(const at::Tensor& x, const at::Tensor& row_scale, const Call& call,
                             const at::Tensor& signs) {
    const auto& up = call.up.value;
    if (call.kernel == Kernel::cuda) {
      const auto activation = gemm(x, up.t());
      cuda::activate(mlp_shape(x, up), const_fp32_data(row_scale), call.slope,
                     mutable_data(activation), mutable_data(signs), dtype_of(x), current_stream(x));
      return activation;
    }
    auto sizes = x.sizes().vec();
    sizes.back() = up.size(0);
    const auto activation = at::empty(sizes, x.options());
    cuda::mlp_up(mlp_shape(x, up), const_data(x), const_data(up), const_fp32_data(row_scale),
                 call.slope, mutable_data(activation), mutable_data(signs), dtype_of(x),
                 current_stream(x));
    return activation;
  }
  // Overwrites the activation with the gradient of x·upᵀ.
  static void differentiate(const at::Tensor& x, const at::Tensor& row_scale, const at::Tensor& dy,
                            const Call& call, const at::Tensor& activation,
                            const at::Tensor& signs) {
    const auto &up = call.up.value, &down = call.down.value;
    if (call.kernel == Kernel::cuda) {
      const auto d_activation = gemm(dy, down);
      cuda::activation_backward(mlp_shape(x, up), const_data(d_activation),
                                const_fp32_data(row_scale), const_data(signs), call.slope,
                                mutable_data(activation), dtype_of(x), current_stream(x));
    } else {
      cuda::mlp_down_backward(mlp_shape(x, up), const_data(dy), const_data(down),
                              const_fp32_data(row_scale), const_data(activation), const_data(signs),
                              call.slope, mutable_data(activation), dtype_of(x), current_stream(x));
    }
  }
  static at::Tensor empty_signs(const at::Tensor& x, const Call& call) {
    const auto shape = mlp_shape(x, call.up.value);
    const auto bytes = call.kernel == Kernel::cuda ? cuda::activation_sign_bytes(shape)
                                                   : cuda::mlp_sign_bytes(shape);
    return at::empty({bytes}, x.options().dtype(at::kByte));
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& row_scale, const Call& call) {
    const auto signs = call.recompute ? at::Tensor() : empty_signs(x, call);
    const auto activation = activate(x, or_undefined(row_scale), call, signs);
    context->save_for_backward({x, call.recompute ? at::Tensor() : activation, signs,
                                or_undefined(row_scale), call.up.value, call.down.value});
    context->saved_data["call"] = in_capsule(call);
    return linear_forward(activation, call.down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &row_scale = saved[3];
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto signs = call.recompute ? empty_signs(x, call) : saved[2];
    const auto activation =
        as_rows(call.recompute ? activate(x, row_scale, call, signs) : saved[1]);
    const auto dy = as_rows(aligned_contiguous(upstream[0]));
    accumulate_gradient(call.down, dy, activation);
    // The activation is no longer needed.
    if (!call.recompute) torch::autograd::impl::bump_version(saved[1]);
    differentiate(x, row_scale, dy, call, activation, signs);
    const auto dx = linear_backward(x, call.up, activation);
    return {dx, at::Tensor(), at::Tensor()};
  }
};

// linear(leaky_relu_squared(linear(x, up)), down) that saves x·upᵀ but not the activation.
struct RecomputingMlp : torch::autograd::Function<RecomputingMlp> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight& up,
                            const Weight& down, double slope) {
    const auto hidden = linear_forward(x, up);
    context->save_for_backward({x, hidden, up.value, down.value});
    context->saved_data["up"] = in_capsule(up);
    context->saved_data["down"] = in_capsule(down);
    context->saved_data["slope"] = slope;
    return linear_forward(leaky_relu_squared(hidden, slope), down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &hidden = saved[1];
    const double slope = context->saved_data["slope"].toDouble();
    const auto down = from_capsule<Weight>(context->saved_data["down"]);
    const auto d_activation = linear_backward(leaky_relu_squared(hidden, slope), down, upstream[0]);
    const auto d_hidden = leaky_relu_squared_backward(hidden, d_activation, slope);
    const auto dx = linear_backward(x, from_capsule<Weight>(context->saved_data["up"]), d_hidden);
    const at::Tensor none;
    return {dx, none, none, none};
  }
};

// Whether autograd need not differentiate the weights, so that a custom backward suffices.
bool supports_custom_backward(const Weight& up, const Weight& down) {
  return !up.uses_autograd() && !down.uses_autograd();
}

}  // namespace

Kernel choose_mlp(const at::Tensor& x, const Weight& up, const Weight& down) {
  assert(up.fp8.defined() == down.fp8.defined());
  const bool fp8 = up.fp8.defined();
  const bool differentiates = at::GradMode::is_enabled() && !supports_custom_backward(up, down);
  if (differentiates || !use_kernels(x)) return Kernel::aten;
  if (supports_hopper_gemm(x, up.value) && supports_hopper_gemm(x, down.value))
    return fp8 ? Kernel::hopper_fp8 : Kernel::hopper;
  if (fp8) return Kernel::cuda_fp8;
  return x.scalar_type() != at::kFloat && up.value.size(0) % 8 == 0 ? Kernel::cuda : Kernel::aten;
}

NormedForm mlp_input(Kernel kernel) {
  if (in_fp8(kernel)) return NormedForm::quantized;
  return kernel == Kernel::aten ? NormedForm::materialized : NormedForm::deferred_scale;
}

at::Tensor mlp(const NormedInput& in, const Weight& up, const Weight& down, double slope,
               bool recompute, Kernel kernel) {
  const bool grad = at::GradMode::is_enabled();
  if (in_fp8(kernel)) {
    const bool scaled = in.form() == NormedForm::deferred_scale;
    return fp8_mlp(scaled ? in.materialized() : in, up, down, slope, recompute, kernel);
  }
  if (kernel != Kernel::aten) {
    const auto x = aligned_contiguous(in.tensor());
    const FusedMlp::Call call{up, down, static_cast<float>(slope), recompute, kernel};
    if (!grad) return linear_forward(FusedMlp::activate(x, in.row_scale(), call, {}), down);
    assert(x.requires_grad());  // else autograd would not call backward
    return FusedMlp::apply(x, optional_tensor(in.row_scale()), call);
  }
  const auto x = in.materialized().tensor();
  if (grad && supports_custom_backward(up, down) && recompute) {
    assert(x.requires_grad());
    return RecomputingMlp::apply(x, up, down, slope);
  }
  return linear(leaky_relu_squared(linear(x, up), slope), down);
}

at::Tensor mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
               bool recompute) {
  return mlp(x, up, down, slope, recompute, choose_mlp(x.tensor(), up, down));
}

}  // namespace tg
