#include "ops/mlp/fp8_mlp.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/kernels.h"
#include "ops/mlp/fp8_mlp_hopper.h"
#include "ops/mlp/mlp_shape.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Fp8Mlp : torch::autograd::Function<Fp8Mlp> {
  struct Weights {
    Weight up, down;
    float slope;
  };
  // [T, F] and [F, T]; `signs`: x·upᵀ's.
  struct Activation {
    at::Tensor rows, transposed, signs;
  };

  // Activation of x in e4m3.
  static Activation activate(const at::Tensor& x, const Weights& of) {
    const auto shape = mlp_shape(x, of.up.value);
    const Activation out{
        at::empty({shape.rows, shape.hidden}, x.options()),
        empty_fp8_transposed(x, shape.rows, shape.hidden),
        at::empty({cuda::fp8_mlp_sign_bytes(shape)}, x.options().dtype(at::kByte))};
    const auto &up = of.up.fp8, &down = of.down.fp8;
    cuda::fp8_mlp_up(shape, const_data(x), const_data(up.value),
                     fp8_gemm(up.input.scale, up.scale, fp8_copy(out.rows, down.input)), of.slope,
                     mutable_data(out.transposed), mutable_data(out.signs), current_stream(x));
    return out;
  }
  // Overwrites the transposed activation with the gradient of x·upᵀ, transposed → its rows.
  static at::Tensor differentiate(const at::Tensor& dy, const Weights& of,
                                  const at::Tensor& transposed, const at::Tensor& signs) {
    const auto shape = mlp_shape(dy, of.up.value);
    const auto rows = at::empty({shape.rows, shape.hidden}, dy.options());
    const auto &up = of.up.fp8, &down = of.down.fp8;
    cuda::fp8_mlp_down_backward(
        shape, const_data(dy), const_data(down.transposed),
        fp8_gemm(down.output_gradient.scale, down.scale, fp8_copy(rows, up.output_gradient)),
        const_data(transposed), const_fp32_data(down.input.scale), const_data(signs), of.slope,
        mutable_data(transposed), current_stream(dy));
    return rows;
  }

  // `in`: x_in, and its rounding.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_in, const NormedInput& in,
                            const Weights& of, bool recompute) {
    const auto x = in.rounded(of.up.fp8.input);
    const auto activation = activate(x, of);
    const at::Tensor none;
    context->save_for_backward({x, recompute ? none : activation.transposed,
                                recompute ? none : activation.signs, of.up.value, of.down.value});
    context->saved_data["weights"] = in_capsule(of);
    const auto& down = of.down.fp8;
    return fp8_matmul(activation.rows, down.input.scale, down.value, down.scale).view_as(x_in);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto of = from_capsule<Weights>(context->saved_data["weights"]);
    const auto &up = of.up.fp8, &down = of.down.fp8;
    const auto& x = saved[0];
    auto transposed = saved[1], signs = saved[2];
    if (!transposed.defined()) {
      auto again = activate(x, of);
      transposed = again.transposed, signs = again.signs;
    } else {
      torch::autograd::impl::bump_version(transposed);  // it is overwritten
    }
    const auto dy = to_fp8(as_rows(upstream[0]), down.output_gradient);
    accumulate_fp8_gemm(of.down.gradient, fp8_transposed(dy), down.output_gradient.scale,
                        transposed, down.input.scale);
    const auto d_hidden = differentiate(dy, of, transposed, signs);
    accumulate_fp8_gemm(of.up.gradient, transposed, up.output_gradient.scale, fp8_transposed(x),
                        up.input.scale);
    const auto dx = fp8_matmul(d_hidden, up.output_gradient.scale, up.transposed, up.scale);
    const at::Tensor none;
    return {dx.view_as(upstream[0]), none, none, none};
  }
};

}  // namespace

at::Tensor fp8_mlp(const NormedInput& x, const Weight& up, const Weight& down, double slope,
                   bool recompute) {
  assert(x.form() != NormedForm::scaled_by_row);
  // Else autograd would not call backward.
  assert(x.tensor().requires_grad() || !at::GradMode::is_enabled());
  return Fp8Mlp::apply(x.tensor(), x, Fp8Mlp::Weights{up, down, static_cast<float>(slope)},
                       recompute);
}

}  // namespace tg
