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

// Reference: returns the rows' losses; if `gradient` is defined, writes the scaled gradient of Σ
// nll to its first `vocab` columns.
at::Tensor forward_rows(const at::Tensor& padded, const at::Tensor& targets, double cap,
                        const at::Tensor& gradient, const RowsScale& scale, std::int64_t vocab) {
  const auto logits = padded.narrow(1, 0, vocab);
  const auto rows = logits.size(0);
  const auto step = rows_at_once(logits.size(1));
  auto nll = at::empty({rows}, logits.options().dtype(accumulate_dtype(logits)));
  for (std::int64_t start = 0; start < rows; start += step) {
    const auto count = std::min(step, rows - start);
    const auto target = targets.narrow(0, start, count).unsqueeze(1);
    auto tanh = (logits.narrow(0, start, count).to(nll.scalar_type()) / cap).tanh_();
    auto log_softmax = (tanh * cap).log_softmax(1);
    nll.narrow(0, start, count).copy_(log_softmax.gather(1, target).squeeze(1).neg());
    if (!gradient.defined()) continue;
    auto dz = log_softmax.exp_();
    dz.scatter_(1, target, dz.gather(1, target) - 1);
    dz.mul_(tanh.square_().neg_().add_(1)).mul_(scale.all);
    if (scale.step.defined()) dz.mul_(scale.step);
    if (scale.row_n.defined()) dz.mul_(scale.row_n.narrow(0, start, count).unsqueeze(1));
    gradient.narrow(0, start, count).narrow(1, 0, vocab).copy_(dz);
  }
  return nll;
}

bool supported(const at::Tensor& logits, double cap) {
  return choose_softcap_cross_entropy(logits, logits.size(1), cap) == Kernel::cuda;
}

cuda::SoftcapRows kernel_args(const at::Tensor& logits, const at::Tensor& targets, double cap,
                              std::int64_t vocab) {
  return {.logits = logits.data_ptr(),
          .targets = targets.const_data_ptr<std::int64_t>(),
          .rows = logits.size(0),
          .width = static_cast<int>(logits.size(1)),
          .vocab = static_cast<int>(vocab),
          .cap = static_cast<float>(cap),
          .dtype = dtype_of(logits)};
}

struct NllAndGradient {
  at::Tensor nll_n, gradient_nv;  // gradient_nv: scaled gradient of Σ nll
};

NllAndGradient nll_and_gradient(const at::Tensor& logits, const at::Tensor& targets, double cap,
                                const RowsScale& scale, std::int64_t vocab) {
  if (supported(logits, cap)) {
    auto nll = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    torch::autograd::impl::bump_version(logits);
    cuda::softcap_nll_and_gradient(kernel_args(logits, targets, cap, vocab), mutable_fp32_data(nll),
                                   {.host = static_cast<float>(scale.all),
                                    .device = const_fp32_data(scale.step),
                                    .row = const_fp32_data(scale.row_n)},
                                   current_stream(logits));
    return {nll, logits.variable_data()};
  }
  auto gradient = at::empty_like(logits);
  gradient.slice(1, vocab).zero_();
  return {forward_rows(logits, targets, cap, gradient, scale, vocab), gradient};
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

at::Tensor scaled_mean(const at::Tensor& nll, double scale) {
  auto mean = nll.mean();
  return scale == 1 ? mean : mean.mul_(scale);
}

struct SoftcapCrossEntropy : torch::autograd::Function<SoftcapCrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, double cap, double scale, std::int64_t vocab,
                            const OptionalTensor& grad_scale) {
    const auto rows = static_cast<double>(logits.size(0));
    const auto [nll, gradient] = nll_and_gradient(
        logits, targets, cap, {.all = scale / rows, .step = or_undefined(grad_scale)}, vocab);
    context->saved_data["gradient"] = gradient;
    return scaled_mean(nll, scale);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list upstream) {
    // Scaled in place, since backward runs only once.
    const auto gradient = context->saved_data["gradient"].toTensor();
    context->saved_data.clear();
    scale_in_place(gradient, upstream[0]);
    const at::Tensor none;
    return {gradient, none, none, none, none, none};
  }
};

struct SoftcapLosses : torch::autograd::Function<SoftcapLosses> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, double cap, std::int64_t vocab,
                            double grad_scale) {
    context->save_for_backward({logits, targets});
    context->saved_data["cap"] = cap;
    context->saved_data["vocab"] = vocab;
    context->saved_data["grad_scale"] = grad_scale;
    return softcap_nll(logits, targets, cap, vocab);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list upstream) {
    const auto saved = context->get_saved_variables();
    const auto [nll, gradient] = nll_and_gradient(
        saved[0], saved[1], context->saved_data["cap"].toDouble(),
        {.all = context->saved_data["grad_scale"].toDouble(), .row_n = upstream[0].contiguous()},
        context->saved_data["vocab"].toInt());
    const at::Tensor none;
    return {gradient, none, none, none, none};
  }
};

std::int64_t valid_columns(const at::Tensor& logits, std::int64_t vocab) {
  assert(vocab >= 0 && vocab <= logits.size(1));
  return vocab == 0 ? logits.size(1) : vocab;
}

}  // namespace

at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                                 double cap, double scale, std::int64_t vocab,
                                 const at::Tensor& grad_scale) {
  if (at::GradMode::is_enabled() && logits_nv.requires_grad()) {
    return SoftcapCrossEntropy::apply(aligned_contiguous(logits_nv), targets_n.contiguous(), cap,
                                      scale, valid_columns(logits_nv, vocab),
                                      optional_tensor(grad_scale));
  }
  return scaled_mean(softcap_nll(logits_nv, targets_n, cap, vocab), scale);
}

at::Tensor softcap_losses(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap,
                          std::int64_t vocab, double grad_scale) {
  return SoftcapLosses::apply(aligned_contiguous(logits_nv), targets_n.contiguous(), cap,
                              valid_columns(logits_nv, vocab), grad_scale);
}

Kernel choose_softcap_cross_entropy(const at::Tensor& x, std::int64_t columns, double cap) {
  const bool supported =
      use_kernels(x) && cap <= cuda::kMaxSoftcap && columns < std::numeric_limits<int>::max() / 2;
  return supported ? Kernel::cuda : Kernel::aten;
}

at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap,
                       std::int64_t vocab) {
  const at::NoGradGuard no_grad;
  const auto columns = valid_columns(logits_nv, vocab);
  if (supported(logits_nv, cap)) {
    const auto logits = aligned_contiguous(logits_nv), targets = targets_n.contiguous();
    auto nll = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    cuda::softcap_nll(kernel_args(logits, targets, cap, columns), mutable_fp32_data(nll),
                      current_stream(logits));
    return nll;
  }
  return forward_rows(logits_nv, targets_n, cap, /*gradient=*/{}, /*scale=*/{}, columns);
}

}  // namespace tg
