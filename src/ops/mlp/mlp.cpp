#include "ops/mlp/mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/kernels.h"
#include "ops/mlp/fp8_mlp.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp_hopper.h"
#include "ops/mlp/mlp_shape.h"
#include "ops/operands.h"

namespace tg {

namespace {

struct FusedMlp : torch::autograd::Function<FusedMlp> {
  // Returns leaky_relu_squared(x·upᵀ); also writes `signs` if defined.
  static at::Tensor activate(const at::Tensor& x, const at::Tensor& row_scale, const at::Tensor& up,
                             double slope, const at::Tensor& signs) {
    auto sizes = x.sizes().vec();
    sizes.back() = up.size(0);
    const auto activation = at::empty(sizes, x.options());
    cuda::mlp_up(mlp_shape(x, up), const_data(x), const_data(up), const_fp32_data(row_scale),
                 static_cast<float>(slope), mutable_data(activation), mutable_data(signs),
                 dtype_of(x), current_stream(x));
    return activation;
  }
  // Overwrites the activation with the gradient of x·upᵀ.
  static void differentiate(const at::Tensor& x, const at::Tensor& row_scale, const at::Tensor& dy,
                            const at::Tensor& up, const at::Tensor& down,
                            const at::Tensor& activation, const at::Tensor& signs, double slope) {
    cuda::mlp_down_backward(mlp_shape(x, up), const_data(dy), const_data(down),
                            const_fp32_data(row_scale), const_data(activation), const_data(signs),
                            static_cast<float>(slope), mutable_data(activation), dtype_of(x),
                            current_stream(x));
  }
  static at::Tensor empty_signs(const at::Tensor& x, const at::Tensor& up) {
    return at::empty({cuda::mlp_sign_bytes(mlp_shape(x, up))}, x.options().dtype(at::kByte));
  }
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const OptionalTensor& row_scale, const Weight& up, const Weight& down,
                            double slope, bool recompute) {
    const auto signs = recompute ? at::Tensor() : empty_signs(x, up.value);
    const auto activation = activate(x, or_undefined(row_scale), up.value, slope, signs);
    context->save_for_backward({x, recompute ? at::Tensor() : activation, signs,
                                or_undefined(row_scale), up.value, down.value});
    context->saved_data["up"] = in_capsule(up);
    context->saved_data["down"] = in_capsule(down);
    context->saved_data["slope"] = slope;
    return linear_forward(activation, down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &row_scale = saved[3];
    const auto up = from_capsule<Weight>(context->saved_data["up"]);
    const auto down = from_capsule<Weight>(context->saved_data["down"]);
    const double slope = context->saved_data["slope"].toDouble();
    const bool recompute = !saved[1].defined();
    const auto signs = recompute ? empty_signs(x, up.value) : saved[2];
    const auto activation =
        as_rows(recompute ? activate(x, row_scale, up.value, slope, signs) : saved[1]);
    const auto dy = as_rows(aligned_contiguous(upstream[0]));
    accumulate_gradient(down, dy, activation);
    // The activation is no longer needed.
    if (!recompute) torch::autograd::impl::bump_version(saved[1]);
    differentiate(x, row_scale, dy, up.value, down.value, activation, signs, slope);
    const auto dx = linear_backward(x, up, activation);
    const at::Tensor none;
    return {dx, none, none, none, none, none};
  }
};

// leaky_relu_squared(hidden), in FP8 if `fp8`, for the GEMM of `down`.
NormedInput activation_of(const at::Tensor& hidden, double slope, const Weight& down, bool fp8) {
  const NormedInput activation = leaky_relu_squared(hidden, slope);
  return fp8 ? activation.in_fp8(down.fp8.input) : activation;
}

// linear(leaky_relu_squared(linear(x, up)), down) that saves x·upᵀ but not the activation.
struct RecomputingMlp : torch::autograd::Function<RecomputingMlp> {
  // `in`: x, also in FP8 if the form is quantized.
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const NormedInput& in,
                            const Weight& up, const Weight& down, double slope) {
    const bool fp8 = in.form() == NormedForm::quantized;
    const auto hidden = linear_forward(in, up);
    context->save_for_backward({in.saved(), hidden, up.value, down.value});
    context->saved_data["up"] = in_capsule(up);
    context->saved_data["down"] = in_capsule(down);
    context->saved_data["slope"] = slope;
    return linear_forward(activation_of(hidden, slope, down, fp8), down);
  }
  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &hidden = saved[1];
    const double slope = context->saved_data["slope"].toDouble();
    const auto down = from_capsule<Weight>(context->saved_data["down"]);
    const bool fp8 = x.scalar_type() == at::kFloat8_e4m3fn;
    const auto activation = activation_of(hidden, slope, down, fp8);
    const auto d_activation = linear_backward(activation.saved(), down, upstream[0]);
    const auto d_hidden = leaky_relu_squared_backward(hidden, d_activation, slope);
    const auto dx = linear_backward(x, from_capsule<Weight>(context->saved_data["up"]), d_hidden);
    const at::Tensor none;
    return {dx, none, none, none, none};
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
  return fp8 ? Kernel::cuda_fp8 : Kernel::aten;
}

NormedForm mlp_input(Kernel kernel) {
  return in_fp8(kernel)             ? NormedForm::quantized
         : kernel == Kernel::hopper ? NormedForm::deferred_scale
                                    : NormedForm::materialized;
}

at::Tensor mlp(const NormedInput& in, const Weight& up, const Weight& down, double slope,
               bool recompute, Kernel kernel) {
  const bool grad = at::GradMode::is_enabled();
  if (kernel == Kernel::hopper_fp8) {
    const bool scaled = in.form() == NormedForm::deferred_scale;
    return fp8_mlp(scaled ? in.materialized() : in, up, down, slope, recompute);
  }
  if (kernel == Kernel::hopper) {
    const auto x = aligned_contiguous(in.tensor());
    if (!grad)
      return linear_forward(FusedMlp::activate(x, in.row_scale(), up.value, slope, {}), down);
    assert(x.requires_grad());  // else autograd would not call backward
    return FusedMlp::apply(x, optional_tensor(in.row_scale()), up, down, slope, recompute);
  }
  const bool fp8 = kernel == Kernel::cuda_fp8;
  const auto x = fp8 ? in.in_fp8(up.fp8.input) : in.materialized();
  if (grad && supports_custom_backward(up, down) && recompute) {
    assert(x.tensor().requires_grad());
    return RecomputingMlp::apply(x.tensor(), x, up, down, slope);
  }
  return linear(activation_of(linear(x, up), slope, down, fp8), down);
}

at::Tensor mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
               bool recompute) {
  return mlp(x, up, down, slope, recompute, choose_mlp(x.tensor(), up, down));
}

}  // namespace tg
