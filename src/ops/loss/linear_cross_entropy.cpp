#include "ops/loss/linear_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>
#include <limits>

#include "ops/embedding/embedding_lookup.h"
#include "ops/gemm/gemm.h"
#include "ops/kernels.h"
#include "ops/loss/linear_cross_entropy_hopper.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedLinearCrossEntropy : torch::autograd::Function<FusedLinearCrossEntropy> {
  static cuda::LinearCrossEntropy problem_of(const variable_list& saved, double cap,
                                             std::int64_t vocab) {
    const auto &x = saved[0], &weight = saved[1], &targets = saved[2], &rows = saved[5];
    return {.rows = static_cast<int>(x.size(0)),
            .dim = static_cast<int>(x.size(1)),
            .width = static_cast<int>(weight.size(0)),
            .vocab = static_cast<int>(vocab),
            .cap = static_cast<float>(cap),
            .x = const_data(x),
            .weight = const_data(weight),
            .targets = targets.const_data_ptr<std::int64_t>(),
            .gemm_x = nullptr,  // forward's alone
            .gemm_weight = nullptr,
            .fp8 = {},
            .unnormalised = mutable_data(saved[3]),
            .transposed = mutable_data(saved[4]),
            .inverse_sum = mutable_fp32_data(rows[0]),
            .target_factor = mutable_fp32_data(rows[1])};
  }

  // `in`: x, and its rounding.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const NormedInput& in,
                            const Weight& of, const at::Tensor& targets, double cap, double scale,
                            std::int64_t vocab, const OptionalTensor& grad_scale) {
    const auto& weight = of.value;
    const auto count = x.size(0), width = weight.size(0);
    const auto fp32 = x.options().dtype(at::kFloat);
    const auto& fp8 = of.fp8;
    const auto unnormalised = at::empty(
        {count, width}, x.options().dtype(fp8.defined() ? at::kFloat8_e5m2 : at::kBFloat16));
    const auto transposed =
        fp8.defined() ? empty_fp8_transposed(x, count, width, at::kFloat8_e5m2) : at::Tensor();
    const auto rows = at::empty({2, count}, fp32), nll = at::empty({count}, fp32);
    const auto sums = at::empty(
        {cuda::cross_entropy_partial_sums(static_cast<int>(width), fp8.defined()), count}, fp32);
    const variable_list saved{x, weight, targets, unnormalised, transposed, rows};
    auto problem = problem_of(saved, cap, vocab);
    const auto operands = gemm_operands(in, of);
    problem.gemm_x = const_data(operands.x);
    problem.gemm_weight = const_data(operands.weight);
    problem.fp8 = operands.fp8;
    if (fp8.defined()) problem.fp8.copy = fp8_copy(unnormalised, fp8.output_gradient);
    cuda::linear_cross_entropy(problem, mutable_fp32_data(sums), mutable_fp32_data(nll),
                               current_stream(x));
    context->save_for_backward(saved);
    context->saved_data["weight"] = in_capsule(of);
    context->saved_data["cap"] = cap;
    context->saved_data["vocab"] = vocab;
    context->saved_data["scale"] = scale / static_cast<double>(count);
    context->saved_data["grad_scale"] = grad_scale;
    return nll.mean().mul_(scale);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &unnormalised = saved[3];
    auto& data = context->saved_data;
    const auto vocab = data["vocab"].toInt();
    const auto problem = problem_of(saved, data["cap"].toDouble(), vocab);
    const auto grad_scale = or_undefined(data["grad_scale"].toOptional<at::Tensor>());
    const cuda::NllGradient c{.host = static_cast<float>(data["scale"].toDouble()),
                              .upstream = const_fp32_data(upstream[0]),
                              .grad_scale = const_fp32_data(grad_scale)};
    const auto stream = current_stream(x);

    const auto x_scaled = at::empty_like(x), target_rows = at::empty_like(x);
    cuda::scale_inputs(problem, c, mutable_data(x_scaled), mutable_data(target_rows), stream);
    const auto of = from_capsule<Weight>(data["weight"]);
    const auto& fp8 = of.fp8;
    const auto& gradient_scale = fp8.output_gradient.scale;
    if (fp8.defined())
      accumulate_fp8_gemm(of.gradient, saved[4], gradient_scale,
                          fp8_transposed(to_fp8(x_scaled, fp8.scaled_input)),
                          fp8.scaled_input.scale);
    else
      accumulate_gemm(of.gradient, unnormalised.t(), x_scaled);
    // A target that is no token has a factor of 0.
    accumulate_embedding_gradient(of.gradient, target_rows, saved[2].clamp(0, vocab - 1));

    const auto dx = fp8.defined() ? fp8_matmul(unnormalised, gradient_scale, fp8.transposed,
                                               fp8.scale, /*fast=*/false)
                                  : gemm(unnormalised, weight);
    cuda::finish_input_gradient(problem, c, mutable_data(dx), stream);
    const at::Tensor none;
    return {dx, none, none, none, none, none, none, none};
  }
};

}  // namespace

bool supports_fused_head(const at::Tensor& head_vd, double cap) {
  // fp16 has not the range of e^(s−cap).
  return head_vd.scalar_type() == at::kBFloat16 && head_vd.size(0) >= kMinFusedColumns &&
         cap <= cuda::kMaxSoftcap && supports_hopper_gemm(head_vd, head_vd);
}

bool supports_fp8_head(const at::Tensor& head_vd, double cap) {
  return supports_fused_head(head_vd, cap) && head_vd.size(0) % cuda::kFp8Chunk == 0;
}

Kernel choose_linear_cross_entropy(const at::Tensor& x, const Weight& weight, double cap) {
  const bool in_gemm = at::GradMode::is_enabled() && weight.gradient.defined() && x.size(0) > 0 &&
                       supports_fused_head(weight.value, cap) &&
                       supports_hopper_gemm(x, weight.value);
  if (!in_gemm) return choose_softcap_cross_entropy(x, weight.value.size(0), cap);
  return weight.fp8.defined() ? Kernel::hopper_fp8 : Kernel::hopper;
}

at::Tensor linear_cross_entropy(const NormedInput& in_nd, const Weight& weight,
                                const at::Tensor& targets_n, const CrossEntropyOptions& options) {
  const auto& [cap, scale, vocab, grad_scale] = options;
  const auto in = in_nd.written().contiguous();
  const auto& x_nd = in.tensor();
  const auto kernel = choose_linear_cross_entropy(x_nd, weight, cap);
  if (kernel == Kernel::hopper || kernel == Kernel::hopper_fp8) {
    assert(x_nd.requires_grad());  // else autograd would not call backward
    return FusedLinearCrossEntropy::apply(
        aligned_contiguous(x_nd), in, weight, targets_n.contiguous(), cap, scale,
        vocab == 0 ? weight.value.size(0) : vocab, optional_tensor(grad_scale));
  }
  return softcap_cross_entropy(linear(in_nd, {weight.value, weight.gradient}), targets_n, cap,
                               scale, vocab, grad_scale);
}

}  // namespace tg
