#include "ops/loss/softcap_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cassert>
#include <limits>

#include "ops/kernels.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"
#include "ops/operands.h"

namespace tg {

namespace {

// Rows per chunk of the reference: bounds its fp32 temporaries to 256 MB each at any vocabulary.
std::int64_t rows_at_once(std::int64_t vocab) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 26) / vocab);
}

at::ScalarType accumulate_dtype(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Factors of the gradient of a row's loss, applied before rounding.
struct RowsScale {
  double all = 1;
  at::Tensor step{};   // [] on the device; undefined: 1
  at::Tensor row_n{};  // [N] on the device; undefined: 1
};

struct RowLosses {
  at::Tensor loss_n, nll_n;  // nll: −log p of the first target
};

// dz = mass·p − Σ_k weight_k·onehot_k of some rows, in place of p.
void subtract_targets(const at::Tensor& p, const LossTargets& targets) {
  if (!targets.weighted()) {
    const auto first = targets.ids.unsqueeze(1);
    p.scatter_(1, first, p.gather(1, first) - 1);
    return;
  }
  p.mul_(targets.mass.unsqueeze(1));
  p.scatter_add_(1, targets.ids.clamp_min(0), targets.weights.to(p.scalar_type()).neg());
}

RowLosses losses_of(const at::Tensor& log_softmax, const LossTargets& targets) {
  const auto nll = log_softmax.gather(1, targets.first().unsqueeze(1)).squeeze(1).neg();
  if (!targets.weighted()) return {nll, nll};
  const auto others = log_softmax.gather(1, targets.ids.clamp_min(0));
  return {(others * targets.weights).sum(1).neg(), nll};
}

// Reference: returns the rows' losses; if `gradient` is defined, writes the scaled gradient of
// their sum to its first `vocab` columns.
RowLosses forward_rows(const at::Tensor& padded, const LossTargets& targets, const Softcap& softcap,
                       const at::Tensor& gradient, const RowsScale& scale, std::int64_t vocab) {
  const auto logits = padded.narrow(1, 0, vocab);
  const auto rows = logits.size(0);
  const auto step = rows_at_once(logits.size(1));
  const auto options = logits.options().dtype(accumulate_dtype(logits));
  const RowLosses all{at::empty({rows}, options), at::empty({rows}, options)};
  for (std::int64_t start = 0; start < rows; start += step) {
    const auto count = std::min(step, rows - start);
    const auto here = targets.rows(start, count);
    auto z = logits.narrow(0, start, count).to(options.dtype());
    if (softcap.shift != 0) z = z + softcap.shift;
    auto tanh = (z / softcap.temperature).tanh_();
    auto log_softmax = (tanh * softcap.cap).log_softmax(1);
    const auto losses = losses_of(log_softmax, here);
    all.loss_n.narrow(0, start, count).copy_(losses.loss_n);
    all.nll_n.narrow(0, start, count).copy_(losses.nll_n);
    if (!gradient.defined()) continue;
    auto dz = log_softmax.exp_();
    subtract_targets(dz, here);
    dz.mul_(tanh.square_().neg_().add_(1)).mul_(scale.all * softcap.gain());
    if (scale.step.defined()) dz.mul_(scale.step);
    if (scale.row_n.defined()) dz.mul_(scale.row_n.narrow(0, start, count).unsqueeze(1));
    gradient.narrow(0, start, count).narrow(1, 0, vocab).copy_(dz);
  }
  return all;
}

bool supported(const at::Tensor& logits, const Softcap& softcap) {
  return choose_softcap_cross_entropy(logits, logits.size(1), softcap) == Kernel::cuda;
}

cuda::SoftcapRows kernel_args(const at::Tensor& logits, const at::Tensor& targets,
                              const Softcap& softcap, std::int64_t vocab) {
  return {.logits = logits.data_ptr(),
          .targets = targets.const_data_ptr<std::int64_t>(),
          .rows = logits.size(0),
          .width = static_cast<int>(logits.size(1)),
          .vocab = static_cast<int>(vocab),
          .softcap = softcap,
          .dtype = dtype_of(logits)};
}

struct LossesAndGradient {
  RowLosses losses;
  at::Tensor gradient_nv;  // scaled gradient of the losses' sum
};

LossesAndGradient losses_and_gradient(const at::Tensor& logits, const LossTargets& targets,
                                      const Softcap& softcap, const RowsScale& scale,
                                      std::int64_t vocab) {
  if (supported(logits, softcap) && !targets.weighted()) {
    auto nll = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    torch::autograd::impl::bump_version(logits);
    cuda::softcap_nll_and_gradient(kernel_args(logits, targets.ids, softcap, vocab),
                                   mutable_fp32_data(nll),
                                   {.host = static_cast<float>(scale.all),
                                    .device = const_fp32_data(scale.step),
                                    .row = const_fp32_data(scale.row_n)},
                                   current_stream(logits));
    return {{nll, nll}, logits.variable_data()};
  }
  auto gradient = at::empty_like(logits);
  gradient.slice(1, vocab).zero_();
  return {forward_rows(logits, targets, softcap, gradient, scale, vocab), gradient};
}

void scale_in_place(const at::Tensor& gradient, const at::Tensor& factor) {
  if (use_kernels(gradient)) {
    assert(factor.scalar_type() == at::kFloat);
    cuda::scale_in_place(mutable_data(gradient), gradient.numel(), const_fp32_data(factor),
                         dtype_of(gradient), current_stream(gradient));
    return;
  }
  gradient.mul_(factor);
}

struct SoftcapCrossEntropy : torch::autograd::Function<SoftcapCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const LossTargets& targets, const CrossEntropyOptions& options) {
    const auto rows = static_cast<double>(logits.size(0));
    const auto [losses, gradient] = losses_and_gradient(
        logits, targets, options.softcap, {.all = options.scale / rows, .step = options.grad_scale},
        options.vocab);
    context->saved_data["gradient"] = gradient;
    if (options.mean_nll.defined())
      options.mean_nll.copy_(scaled_mean(losses.nll_n, options.scale));
    return scaled_mean(losses.loss_n, options.scale);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    // Scaled in place, since backward runs only once.
    const auto gradient = context->saved_data["gradient"].toTensor();
    context->saved_data.clear();
    scale_in_place(gradient, upstream[0]);
    const at::Tensor none;
    return {gradient, none, none};
  }
};

// options.scale multiplies only the gradient.
struct SoftcapLosses : torch::autograd::Function<SoftcapLosses> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const CrossEntropyOptions& options) {
    context->save_for_backward({logits, targets});
    context->saved_data["options"] = in_capsule(options);
    return softcap_nll(logits, targets, options.softcap, options.vocab);
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto options = from_capsule<CrossEntropyOptions>(context->saved_data["options"]);
    const auto [losses, gradient] = losses_and_gradient(
        saved[0], saved[1], options.softcap,
        {.all = options.scale, .row_n = upstream[0].contiguous()}, options.vocab);
    const at::Tensor none;
    return {gradient, none, none};
  }
};

std::int64_t valid_columns(const at::Tensor& logits, std::int64_t vocab) {
  assert(vocab >= 0 && vocab <= logits.size(1));
  return vocab == 0 ? logits.size(1) : vocab;
}

}  // namespace

at::Tensor scaled_mean(const at::Tensor& nll_n, double scale) {
  auto mean = nll_n.mean();
  return scale == 1 ? mean : mean.mul_(scale);
}

at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const LossTargets& targets,
                                 const CrossEntropyOptions& options) {
  auto own = options;
  own.vocab = valid_columns(logits_nv, options.vocab);
  if (at::GradMode::is_enabled() && logits_nv.requires_grad())
    return SoftcapCrossEntropy::apply(aligned_contiguous(logits_nv), targets.contiguous(), own);
  if (!targets.weighted())
    return scaled_mean(softcap_nll(logits_nv, targets.ids, own.softcap, own.vocab), own.scale);
  const auto losses =
      forward_rows(logits_nv, targets, own.softcap, /*gradient=*/{}, /*scale=*/{}, own.vocab);
  if (own.mean_nll.defined()) own.mean_nll.copy_(scaled_mean(losses.nll_n, own.scale));
  return scaled_mean(losses.loss_n, own.scale);
}

at::Tensor softcap_losses(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                          const Softcap& softcap, std::int64_t vocab, double grad_scale) {
  return SoftcapLosses::apply(
      aligned_contiguous(logits_nv), targets_n.contiguous(),
      CrossEntropyOptions{
          .softcap = softcap, .scale = grad_scale, .vocab = valid_columns(logits_nv, vocab)});
}

Kernel choose_softcap_cross_entropy(const at::Tensor& x, std::int64_t columns,
                                    const Softcap& softcap) {
  const bool supported = use_kernels(x) && softcap.cap <= cuda::kMaxSoftcap &&
                         columns < std::numeric_limits<int>::max() / 2;
  return supported ? Kernel::cuda : Kernel::aten;
}

at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                       const Softcap& softcap, std::int64_t vocab) {
  const at::NoGradGuard no_grad;
  const auto columns = valid_columns(logits_nv, vocab);
  if (supported(logits_nv, softcap)) {
    const auto logits = aligned_contiguous(logits_nv), targets = targets_n.contiguous();
    auto nll = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    cuda::softcap_nll(kernel_args(logits, targets, softcap, columns), mutable_fp32_data(nll),
                      current_stream(logits));
    return nll;
  }
  return forward_rows(logits_nv, targets_n, softcap, /*gradient=*/{}, /*scale=*/{}, columns).nll_n;
}

}  // namespace tg
