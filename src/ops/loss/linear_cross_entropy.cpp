#include "ops/loss/linear_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cassert>
#include <vector>

#include "ops/embedding/embedding_lookup.h"
#include "ops/gemm/gemm.h"
#include "ops/kernels.h"
#include "ops/loss/linear_cross_entropy_hopper.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/operands.h"

namespace tg {

namespace {

// bf16, or in FP8 one byte each for G and its transpose.
constexpr std::int64_t kLogitBytes = 2;
constexpr std::int64_t kClusterRows = 256;  // rows of a cluster's tiles in Hopper's first GEMM

// All tokens, or a chunk of them.
struct Tokens {
  at::Tensor x, gemm_x, dx;  // [N, D]; gemm_x: the first GEMM's operand, x or its FP8 copy
  LossTargets targets;
  at::Tensor loss, nll, inverse_sum;  // [N] fp32
  at::Tensor target_factor;           // [N, K] fp32

  std::int64_t count() const { return x.size(0); }
  Tokens chunk(std::int64_t first, std::int64_t at_most) const {
    const auto rows = std::min(at_most, count() - first);
    const auto slice = [&](const at::Tensor& all) { return all.narrow(0, first, rows); };
    return {slice(x),    slice(gemm_x), slice(dx),          targets.rows(first, rows),
            slice(loss), slice(nll),    slice(inverse_sum), slice(target_factor)};
  }
};

// A chunk's G [N, V], in FP8 also its transpose, and the sums of its rows.
struct LogitsGradient {
  at::Tensor rows, transposed{}, sums;
  cuda::SoftmaxSums layout;
};

// Computes losses and gradients, chunk by chunk.
struct FusedHead {
  const Weight& weight;
  at::Tensor gemm_weight;
  cuda::Fp8Gemm gemm_scales;
  Softcap softcap;
  std::int64_t vocab;
  cuda::RowGradient c;

  cuda::LinearCrossEntropy make_problem(const Tokens& tokens) const {
    return {.rows = static_cast<int>(tokens.count()),
            .dim = static_cast<int>(tokens.x.size(1)),
            .width = static_cast<int>(weight.value.size(0)),
            .vocab = static_cast<int>(vocab),
            .softcap = softcap,
            .x = const_data(tokens.x),
            .weight = const_data(weight.value),
            .target_count = static_cast<int>(tokens.targets.count()),
            .targets = tokens.targets.ids.const_data_ptr<std::int64_t>(),
            .weights = const_fp32_data(tokens.targets.weights),
            .mass = const_fp32_data(tokens.targets.mass),
            .gemm_x = const_data(tokens.gemm_x),
            .gemm_weight = const_data(gemm_weight),
            .fp8 = gemm_scales,
            .unnormalised = nullptr,  // set per chunk
            .inverse_sum = mutable_fp32_data(tokens.inverse_sum),
            .target_factor = mutable_fp32_data(tokens.target_factor)};
  }

  // Computes a chunk's G and the sums of its rows, in the GEMM's epilogue.
  LogitsGradient run_epilogue(const Tokens& tokens, cuda::LinearCrossEntropy& problem) const {
    const auto& x = tokens.x;
    const auto& fp8 = weight.fp8;
    const auto count = tokens.count(), width = weight.value.size(0);
    const auto layout = cuda::linear_softmax_sums(problem.width, fp8.defined());
    LogitsGradient out{
        .rows = at::empty({count, width},
                          x.options().dtype(fp8.defined() ? at::kFloat8_e5m2 : at::kBFloat16)),
        .sums = at::empty({layout.parts, count}, tokens.nll.options()),
        .layout = layout};
    if (fp8.defined()) {
      out.transposed = empty_fp8_transposed(x, count, width, at::kFloat8_e5m2);
      problem.fp8.copy = fp8_copy(out.rows, fp8.output_gradient);
    }
    problem.unnormalised = mutable_data(out.rows);
    cuda::linear_softmax_gradient(problem, mutable_data(out.transposed),
                                  mutable_fp32_data(out.sums), current_stream(x));
    return out;
  }
  // Computes G and the sums by a GEMM and a kernel, which in bf16 overwrites the logits.
  LogitsGradient run_separately(const Tokens& tokens, cuda::LinearCrossEntropy& problem) const {
    const auto& fp8 = weight.fp8;
    auto logits = fp8.defined() ? fp8_matmul(tokens.gemm_x, fp8.input.scale, fp8.value, fp8.scale)
                                : gemm(tokens.x, weight.value.t());
    LogitsGradient out{.rows = logits,
                       .sums = at::empty({1, tokens.count()}, tokens.nll.options()),
                       .layout = {1, problem.width}};
    if (fp8.defined()) {
      out.rows = at::empty(logits.sizes(), logits.options().dtype(at::kFloat8_e5m2));
      problem.fp8.copy = fp8_copy(out.rows, fp8.output_gradient);
    }
    problem.unnormalised = mutable_data(out.rows);
    cuda::softmax_gradient(problem, const_data(logits), mutable_fp32_data(out.sums),
                           current_stream(tokens.x));
    logits.reset();  // the transpose takes its place
    if (fp8.defined()) out.transposed = fp8_transposed(out.rows);
    return out;
  }

  // Computes a chunk's losses and dx and accumulates its dW, except the targets' terms.
  void run_chunk(const Tokens& tokens) const {
    const auto& x = tokens.x;
    const auto& fp8 = weight.fp8;
    const auto stream = current_stream(x);
    auto problem = make_problem(tokens);
    const auto [g, transposed, sums, layout] = supports_hopper_gemm(x, weight.value)
                                                   ? run_epilogue(tokens, problem)
                                                   : run_separately(tokens, problem);
    cuda::finish_rows(problem, const_fp32_data(sums), layout,
                      {mutable_fp32_data(tokens.loss), mutable_fp32_data(tokens.nll)}, stream);

    const auto& gradient_scale = fp8.output_gradient.scale;
    if (fp8.defined()) {
      const auto x_scaled = empty_fp8_transposed(x, x.size(0), x.size(1));
      cuda::scale_inputs_to_fp8(problem, c, fp8_copy(x_scaled, fp8.scaled_input), stream);
      accumulate_fp8_gemm(weight.gradient, transposed, gradient_scale, x_scaled,
                          fp8.scaled_input.scale);
    } else {
      const auto x_scaled = at::empty_like(x);
      cuda::scale_inputs(problem, c, mutable_data(x_scaled), stream);
      accumulate_gemm(weight.gradient, g.t(), x_scaled);
    }

    const auto unnormalised_dx = fp8.defined()
                                     ? fp8_matmul(g, gradient_scale, fp8.transposed, fp8.scale,
                                                  /*fast=*/false)
                                     : gemm(g, weight.value);
    cuda::finish_input_gradient(problem, c, const_data(unnormalised_dx), mutable_data(tokens.dx),
                                stream);
  }

  void add_target_terms(const Tokens& tokens) const {
    const auto rows = at::empty_like(tokens.x);
    const auto ids = tokens.targets.ids.view({tokens.count(), -1});
    for (std::int64_t k = 0; k < ids.size(1); ++k) {
      cuda::scale_target_inputs(make_problem(tokens), c, static_cast<int>(k), mutable_data(rows),
                                current_stream(tokens.x));
      // An invalid target has a factor of 0, so clamping it is harmless.
      accumulate_embedding_gradient(weight.gradient, rows, ids.select(1, k).clamp(0, vocab - 1));
    }
  }
};

struct FusedLinearCrossEntropy : torch::autograd::Function<FusedLinearCrossEntropy> {
  // `in`: x and, if any, its FP8 copy.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const NormedInput& in,
                            const Weight& weight, const LossTargets& targets,
                            const CrossEntropyOptions& options) {
    const auto count = x.size(0), width = weight.value.size(0);
    const auto fp32 = x.options().dtype(at::kFloat);
    const auto operands = gemm_operands(in, weight);
    const auto rows = at::empty({3, count}, fp32);
    const Tokens tokens{
        x,       operands.x, at::empty_like(x), targets,
        rows[0], rows[1],    rows[2],           at::empty({count, targets.count()}, fp32)};
    const FusedHead head{
        .weight = weight,
        .gemm_weight = operands.weight,
        .gemm_scales = operands.fp8,
        .softcap = options.softcap,
        .vocab = options.vocab == 0 ? width : options.vocab,
        .c = {.host = static_cast<float>(options.scale / static_cast<double>(count)),
              .grad_scale = const_fp32_data(options.grad_scale)}};
    const auto chunk = fused_head_rows(count, width, options.chunk_bytes);
    for (std::int64_t first = 0; first < count; first += chunk)
      head.run_chunk(tokens.chunk(first, chunk));
    head.add_target_terms(tokens);

    context->saved_data["dx"] = tokens.dx;
    if (options.mean_nll.defined()) options.mean_nll.copy_(tokens.nll.mean().mul_(options.scale));
    return tokens.loss.mean().mul_(options.scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& /*upstream*/) {
    const auto dx = context->saved_data["dx"].toTensor();
    context->saved_data.clear();
    const at::Tensor none;
    return {dx, none, none, none, none};
  }
};

}  // namespace

bool supports_fused_head(const at::Tensor& head_vd, const Softcap& softcap) {
  // fp16 lacks the range of e^(s−cap).
  return use_kernels(head_vd) && head_vd.scalar_type() == at::kBFloat16 &&
         head_vd.size(0) >= kMinFusedColumns && softcap.cap <= cuda::kMaxSoftcap &&
         has_aligned_rows(head_vd, head_vd);
}

bool supports_fp8_head(const at::Tensor& head_vd, const Softcap& softcap) {
  return supports_fused_head(head_vd, softcap) && head_vd.size(0) % cuda::kFp8Chunk == 0;
}

std::int64_t fused_head_rows(std::int64_t rows, std::int64_t columns, std::int64_t chunk_bytes) {
  const auto ceil_div = [](std::int64_t size, std::int64_t block) {
    return (size + block - 1) / block;
  };
  const auto max_rows = chunk_bytes / (kLogitBytes * columns) / kClusterRows * kClusterRows;
  const auto chunks = ceil_div(rows, std::max(max_rows, kClusterRows));
  return ceil_div(ceil_div(rows, chunks), kClusterRows) * kClusterRows;
}

namespace {

bool is_fused(const at::Tensor& x, const Weight& weight, const Softcap& softcap) {
  return at::GradMode::is_enabled() && weight.gradient.defined() && x.size(0) > 0 &&
         supports_fused_head(weight.value, softcap) && has_aligned_rows(x, weight.value);
}

}  // namespace

Kernel choose_linear_cross_entropy(const at::Tensor& x, const Weight& weight,
                                   const Softcap& softcap) {
  if (!is_fused(x, weight, softcap))
    return choose_softcap_cross_entropy(x, weight.value.size(0), softcap);
  const bool in_gemm = supports_hopper_gemm(x, weight.value);
  if (weight.fp8.defined()) return in_gemm ? Kernel::hopper_fp8 : Kernel::cuda_fp8;
  return in_gemm ? Kernel::hopper : Kernel::cuda;
}

void for_each_logits(const NormedInput& x_nd, const Weight& weight,
                     const std::function<void(std::int64_t first, const at::Tensor& z_nv)>& use,
                     std::int64_t chunk_bytes) {
  const at::NoGradGuard no_grad;
  const auto x = x_nd.rows();
  const auto columns = weight.value.size(0) * x.element_size() / kLogitBytes;
  const auto chunk = fused_head_rows(x.size(0), columns, chunk_bytes);
  for (std::int64_t first = 0; first < x.size(0); first += chunk) {
    const auto rows = std::min(chunk, x.size(0) - first);
    use(first, linear(x.narrow(0, first, rows), {weight.value, {}}));
  }
}

at::Tensor linear_nll(const NormedInput& x_nd, const Weight& weight, const at::Tensor& targets_n,
                      const CrossEntropyOptions& options) {
  std::vector<at::Tensor> parts;
  const auto add = [&](std::int64_t first, const at::Tensor& z) {
    const auto targets = targets_n.narrow(0, first, z.size(0));
    parts.push_back(softcap_nll(z, targets, options.softcap, options.vocab));
  };
  for_each_logits(x_nd, weight, add, options.chunk_bytes);
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

at::Tensor linear_cross_entropy(const NormedInput& in_nd, const Weight& weight,
                                const LossTargets& targets, const CrossEntropyOptions& options) {
  const auto in = in_nd.materialized().contiguous();
  const auto& x_nd = in.tensor();
  if (is_fused(x_nd, weight, options.softcap)) {
    assert(x_nd.requires_grad());  // else autograd would not call backward
    return FusedLinearCrossEntropy::apply(aligned_contiguous(x_nd), in, weight,
                                          targets.contiguous(), options);
  }
  if (!at::GradMode::is_enabled() && !targets.weighted() && x_nd.size(0) > 0)
    return scaled_mean(linear_nll(in, weight, targets.ids, options), options.scale);
  return softcap_cross_entropy(linear(in_nd, {weight.value, weight.gradient}), targets, options);
}

}  // namespace tg
