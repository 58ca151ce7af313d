#include "ops/attention/projection/qkv_proj_norm_rope.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>

#include "ops/attention/gates/head_gate.h"
#include "ops/attention/kernels/head_vectors.h"
#include "ops/attention/kernels/qkv_proj_norm_rope_hopper.h"
#include "ops/attention/projection/qkv_shape.h"
#include "ops/gemm/gemm.h"
#include "ops/operands.h"

namespace tg {

namespace {

// Allocates the result for Hopper's epilogue: q, k and v apart where they are to be contiguous.
at::Tensor empty_qkv(const at::Tensor& x, const Weight& weight, const QkvInputs& in) {
  const auto batch = x.size(0), tokens = x.size(1), columns = weight.value.size(0);
  const bool apart = in.contiguous && in.heads == in.kv_heads && columns / 3 % 64 == 0 &&
                     batch * tokens % cuda::kApartTokens == 0;
  if (!apart) return at::empty({batch, tokens, columns}, x.options());
  const auto width = columns / 3;
  return at::empty_strided({batch, tokens, 3, width},
                           {tokens * width, width, batch * tokens * width, 1}, x.options());
}

// Returns the result of qk_norm_rope(x·weightᵀ) as one tensor, and row_scale/rms of q and k: by the
// GEMM's epilogue on Hopper, in place after the GEMM elsewhere. Its upstream gradient comes from
// fused_qk_norm_rope(), which also computes the gradients of `in`, and is the gradient of the plain
// x·weightᵀ.
struct FusedQkvProjNormRope : torch::autograd::Function<FusedQkvProjNormRope> {
  // `normed`: x with its FP8 copy or row scale, if any.
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const NormedInput& normed, const Weight& weight,
                               const RopeTable& table, const QkvInputs& in, bool on_hopper) {
    const auto batch = x.size(0), tokens = x.size(1);
    const auto inverse_rms =
        at::empty({batch, tokens, in.heads + in.kv_heads}, x.options().dtype(at::kFloat));
    const auto embedding = readable_heads(in.value_embedding, in.kv_heads),
               first_v = readable_heads(in.first_v);
    const cuda::QkNormRopeInputs inputs{.qkv = nullptr,
                                        .inverse_rms = nullptr,
                                        .cos = const_data(table.cos),
                                        .sin = const_data(table.sin),
                                        .q_gain = const_fp32_data(in.q_gain),
                                        .embedding = head_vectors(embedding),
                                        .first_v = head_vectors(first_v),
                                        .first_weight = const_fp32_data(in.first_weight),
                                        .row_scale = const_fp32_data(normed.row_scale())};
    const auto operands = gemm_operands(normed, weight);
    at::Tensor qkv;
    if (on_hopper) {
      qkv = empty_qkv(x, weight, in);
      cuda::qkv_proj_norm_rope(qkv_shape(qkv, in, table), static_cast<int>(x.size(2)),
                               const_data(operands.x), const_data(operands.weight), operands.fp8,
                               inputs, mutable_data(qkv), mutable_fp32_data(inverse_rms),
                               dtype_of(x), current_stream(x));
    } else {
      const auto& fp8 = weight.fp8;
      qkv = fp8.defined() ? fp8_matmul(operands.x, fp8.input.scale, fp8.value, fp8.scale)
                          : gemm(operands.x, operands.weight.t());
      cuda::qk_norm_rope_in_place(qkv_shape(qkv, in, table), inputs, mutable_data(qkv),
                                  mutable_fp32_data(inverse_rms), dtype_of(x), current_stream(x));
    }
    context->save_for_backward({operands.x, weight.value});
    context->saved_data["weight"] = in_capsule(weight);
    context->saved_data["passed"] = in_capsule(in.passed);
    context->mark_non_differentiable({inverse_rms});
    context->set_materialize_grads(false);  // else autograd materializes zeros for inverse_rms
    return {qkv, inverse_rms};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto weight = from_capsule<Weight>(context->saved_data["weight"]);
    const auto dx =
        linear_backward(context->get_saved_variables()[0], weight, upstream[0].flatten(2));
    take_gate_gradient(from_capsule<PassedGradientsPtr>(context->saved_data["passed"]), dx);
    const at::Tensor none;
    return {dx, none, none, none, none, none};
  }
};

std::int64_t head_dim_of(const Weight& weight, const QkvInputs& in) {
  return weight.value.size(0) / (in.heads + 2 * in.kv_heads);
}

// Whether FusedQkvProjNormRope supports these heads and this weight.
bool saves_rotated(const at::Tensor& x, const Weight& weight, const QkvInputs& in) {
  return x.scalar_type() != at::kFloat && head_dim_of(weight, in) <= cuda::kMaxRotatedHead &&
         (weight.gradient.defined() || !at::GradMode::is_enabled());
}

}  // namespace

Kernel choose_qkv_proj_norm_rope(const at::Tensor& x, const Weight& weight, const QkvInputs& in,
                                 const RopeTable& table) {
  const auto head_dim = head_dim_of(weight, in);
  if (!qk_norm_rope_kernels_support(x, head_dim, in, table)) return Kernel::aten;
  const bool in_gemm =
      supports_hopper_gemm(x, weight.value) && saves_rotated(x, weight, in) &&
      cuda::qkv_proj_norm_rope_supports(head_dim, table.half_dims(), table.interleaved);
  if (weight.fp8.defined()) return in_gemm ? Kernel::hopper_fp8 : Kernel::cuda_fp8;
  return in_gemm ? Kernel::hopper : Kernel::cuda;
}

bool qkv_proj_defers_scale(Kernel kernel, const at::Tensor& x, const Weight& weight,
                           const QkvInputs& in) {
  return kernel == Kernel::hopper || (kernel == Kernel::cuda && saves_rotated(x, weight, in));
}

Qkv qkv_proj_norm_rope(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table, Kernel kernel) {
  if (kernel == Kernel::aten || !saves_rotated(x.tensor(), weight, in))
    return qk_norm_rope(linear(kernel == Kernel::cuda_fp8 ? x.in_fp8(weight.fp8.input) : x, weight),
                        in, table);
  [[maybe_unused]] const bool scaled = x.form() == NormedForm::deferred_scale;
  assert(!scaled || !in_fp8(kernel));
  assert(!scaled || !in.value_embedding.defined());  // its gradient is v's, without row_scale
  // Else autograd would not call backward, which accumulates the weight's gradient.
  assert(x.tensor().requires_grad() || !at::GradMode::is_enabled());
  const auto rows = x.contiguous();
  if (in.passed) in.passed->takes_gate_x = true;
  const auto out =
      FusedQkvProjNormRope::apply(rows.tensor(), rows, weight, table, in, on_hopper(kernel));
  return fused_qk_norm_rope(out[0], out[1], in, table, weight.fp8.output_gradient, x.row_scale());
}

Qkv qkv_proj_norm_rope(const NormedInput& x, const Weight& weight, const QkvInputs& in,
                       const RopeTable& table) {
  return qkv_proj_norm_rope(x, weight, in, table,
                            choose_qkv_proj_norm_rope(x.tensor(), weight, in, table));
}

Qkv qkv_proj_norm_rope_of_queries(const NormedInput& normed, const Weight& weight,
                                  const QkvInputs& in, const RopeTable& table, std::int64_t first,
                                  std::int64_t count) {
  const at::NoGradGuard no_grad;
  if (count == normed.tensor().size(1)) return qkv_proj_norm_rope(normed, weight, in, table);
  const auto x = normed.rows();
  // Two projections: k and v of all positions, and q of the selected ones.
  const auto rows = weight.value.size(0), heads_and_kv = in.heads + 2 * in.kv_heads;
  const auto q_rows = rows / heads_and_kv * in.heads;
  auto kv_inputs = in;
  kv_inputs.heads = 0;
  kv_inputs.q_gain = at::Tensor();
  auto qkv =
      qkv_proj_norm_rope(x, {weight.value.narrow(0, q_rows, rows - q_rows), {}}, kv_inputs, table);
  qkv.q = qkv_proj_norm_rope(
              x.narrow(1, first, count), {weight.value.narrow(0, 0, q_rows), {}},
              {.heads = in.heads, .kv_heads = 0, .q_gain = in.q_gain, .channels = in.channels},
              table.narrow(first, count))
              .q;
  return qkv;
}

}  // namespace tg
