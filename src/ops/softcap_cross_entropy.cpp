#include "ops/softcap_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace tg {

namespace {

// Rows in fp32 at a time: bounds the temporaries to some 256 MB each at any vocabulary.
std::int64_t rows_at_once(std::int64_t vocab) {
  return std::max<std::int64_t>(1, (std::int64_t{1} << 26) / vocab);
}

at::ScalarType accumulate_dtype(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// The rows' losses; where `gradient` is defined, their gradient times `scale` as well.
at::Tensor forward_rows(const at::Tensor& logits, const at::Tensor& targets, double cap,
                        const at::Tensor& gradient, double scale) {
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
    dz.mul_(tanh.square_().neg_().add_(1)).mul_(scale);
    gradient.narrow(0, start, count).copy_(dz);
  }
  return nll;
}

struct SoftcapCrossEntropy : torch::autograd::Function<SoftcapCrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, double cap) {
    auto gradient = at::empty_like(logits);
    const double scale = 1.0 / static_cast<double>(logits.size(0));
    const auto nll = forward_rows(logits, targets, cap, gradient, scale);
    context->saved_data["gradient"] = gradient;
    return nll.mean();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list upstream) {
    // Used once and then dropped, so it is scaled in place.
    auto gradient = context->saved_data["gradient"].toTensor();
    context->saved_data.clear();
    return {gradient.mul_(upstream[0]), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor softcap_cross_entropy(const at::Tensor& logits_nv, const at::Tensor& targets_n,
                                 double cap) {
  if (at::GradMode::is_enabled() && logits_nv.requires_grad()) {
    return SoftcapCrossEntropy::apply(logits_nv, targets_n, cap);
  }
  return softcap_nll(logits_nv, targets_n, cap).mean();
}

at::Tensor softcap_nll(const at::Tensor& logits_nv, const at::Tensor& targets_n, double cap) {
  const at::NoGradGuard no_grad;
  return forward_rows(logits_nv, targets_n, cap, /*gradient=*/{}, /*scale=*/0);
}

}  // namespace tg
