#include "ops/mlp/fp8_mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/kernels.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"
#include "ops/operands.h"

namespace tg {

namespace {

struct Fp8Mlp : torch::autograd::Function<Fp8Mlp> {
  struct Weights {
    Weight up, down;
    float slope;
    bool on_hopper;
  };
  // rows [T, F], transposed [F, T]; signs of x·upᵀ.
  struct Activation {
    at::Tensor rows, transposed, signs;
  };

  // Computes the activation of x, in e4m3.
  static Activation activate(const at::Tensor& x, const Weights& weights) {
    const auto shape = mlp_shape(x, weights.up.value);
    const auto sign_bytes =
        weights.on_hopper ? cuda::fp8_mlp_sign_bytes(shape) : cuda::activation_sign_bytes(shape);
    const Activation out{at::empty({shape.rows, shape.hidden}, x.options()),
                         empty_fp8_transposed(x, shape.rows, shape.hidden),
                         at::empty({sign_bytes}, x.options().dtype(at::kByte))};
    const auto &up = weights.up.fp8, &down = weights.down.fp8;
    if (!weights.on_hopper) {
      const auto hidden = fp8_matmul(x, up.input.scale, up.value, up.scale);
      cuda::activate_in_fp8(shape, const_data(hidden), weights.slope,
                            fp8_copy(out.rows, down.input), mutable_data(out.transposed),
                            mutable_data(out.signs), current_stream(x));
      return out;
    }
    cuda::fp8_mlp_up(shape, const_data(x), const_data(up.value),
                     fp8_gemm(up.input.scale, up.scale, fp8_copy(out.rows, down.input)),
                     weights.slope, mutable_data(out.transposed), mutable_data(out.signs),
                     current_stream(x));
    return out;
  }
  // Overwrites the transposed activation with the transposed gradient of x·upᵀ, and returns that
  // gradient's rows.
  static at::Tensor differentiate(const at::Tensor& dy, const Weights& weights,
                                  const at::Tensor& transposed, const at::Tensor& signs) {
    const auto shape = mlp_shape(dy, weights.up.value);
    const auto rows = at::empty({shape.rows, shape.hidden}, dy.options());
    const auto &up = weights.up.fp8, &down = weights.down.fp8;
    if (!weights.on_hopper) {
      const auto d_activation =
          fp8_matmul(dy, down.output_gradient.scale, down.transposed, down.scale);
      cuda::activation_backward_in_fp8(shape, const_data(d_activation),
                                       const_fp32_data(down.input.scale), const_data(signs),
                                       weights.slope, fp8_copy(rows, up.output_gradient),
                                       mutable_data(transposed), current_stream(dy));
      return rows;
    }
    cuda::fp8_mlp_down_backward(
        shape, const_data(dy), const_data(down.transposed),
        fp8_gemm(down.output_gradient.scale, down.scale, fp8_copy(rows, up.output_gradient)),
        const_data(transposed), const_fp32_data(down.input.scale), const_data(signs), weights.slope,
        mutable_data(transposed), current_stream(dy));
    return rows;
  }

  // `in`: x_in and, if any, its FP8 copy.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in, const NormedInput& in,
                            const Weights& weights, bool recompute) {
    const auto x = in.rounded(weights.up.fp8.input);
    const auto activation = activate(x, weights);
    const at::Tensor none;
    context->save_for_backward({x, recompute ? none : activation.transposed,
                                recompute ? none : activation.signs, weights.up.value,
                                weights.down.value});
    context->saved_data["weights"] = in_capsule(weights);
    const auto& down = weights.down.fp8;
    return fp8_matmul(activation.rows, down.input.scale, down.value, down.scale).view_as(x_in);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto weights = from_capsule<Weights>(context->saved_data["weights"]);
    const auto &up = weights.up.fp8, &down = weights.down.fp8;
    const auto& x = saved[0];
    auto transposed = saved[1], signs = saved[2];
    if (!transposed.defined()) {
      auto recomputed = activate(x, weights);
      transposed = recomputed.transposed, signs = recomputed.signs;
    } else {
      torch::autograd::impl::bump_version(transposed);  // overwritten below
    }
    const auto dy = to_fp8(as_rows(upstream[0]), down.output_gradient);
    accumulate_fp8_gemm(weights.down.gradient, fp8_transposed(dy), down.output_gradient.scale,
                        transposed, down.input.scale);
    const auto d_hidden = differentiate(dy, weights, transposed, signs);
    accumulate_fp8_gemm(weights.up.gradient, transposed, up.output_gradient.scale,
                        fp8_transposed(x), up.input.scale);
    const auto dx = fp8_matmul(d_hidden, up.output_gradient.scale, up.transposed, up.scale);
    const at::Tensor none;
    return {dx.view_as(upstream[0]), none, none, none};
  }
};

}  // namespace

at::Tensor fp8_mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
                   bool recompute, Kernel kernel) {
  assert(x.form() != NormedForm::deferred_scale);
  // Else autograd would not call backward.
  assert(x.tensor().requires_grad() || !at::GradMode::is_enabled());
  return Fp8Mlp::apply(x.tensor(), x,
                       Fp8Mlp::Weights{up, down, static_cast<float>(slope), on_hopper(kernel)},
                       recompute);
}

}  // namespace tg
