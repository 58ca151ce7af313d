#include "eval/ttt/ttt_parameters.h"

#include "optim/gradient_norm.h"

namespace tg {

namespace {

// The slice of the parameter's gradient that corresponds to `value`.
at::Tensor gradient_of(const at::Tensor& parameter, const at::Tensor& value) {
  const auto gradient = parameter.grad();
  return gradient.as_strided(
      value.sizes(), value.strides(),
      gradient.storage_offset() + value.storage_offset() - parameter.storage_offset());
}

// All-reduces the gradients as one packed tensor.
void sum_packed(const std::vector<at::Tensor>& gradients, Communicator& communicator) {
  std::vector<at::Tensor> flat;
  for (const auto& gradient : gradients)
    flat.push_back(gradient.flatten().to(norm_dtype(gradients.front())));
  const auto packed = at::cat(flat);
  communicator.sum(packed).wait();
  std::int64_t begin = 0;
  for (const auto& gradient : gradients) {
    gradient.copy_(packed.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
    begin += gradient.numel();
  }
}

}  // namespace

TttParameters::TttParameters(const ParameterTable& table, std::int64_t frozen_blocks,
                             double momentum, bool record_quirks, std::int64_t scaled_tokens)
    : table_(table) {
  if (scaled_tokens > 0) {
    loss_scale_.emplace(table.rows().front().value.device(), scaled_tokens);
  }
  std::vector<at::Tensor> stepped;
  for (const auto& row : table.rows()) {
    if (!row.exported || row.update.rule == UpdateRule::constant) continue;
    const bool bank = row.value.dim() == 3;
    for (const auto& part : row.parts) {
      const bool of_first = part.block >= 0 && part.block < frozen_blocks;
      const bool frozen = of_first && !(bank && record_quirks);
      (frozen ? frozen_ : unfrozen_) += part.value.numel();
      if (frozen) continue;
      parts_.push_back({row.value, part.value});
      stepped.push_back(part.value);
    }
  }
  sgd_.emplace(std::move(stepped), momentum);
}

std::vector<at::Tensor> TttParameters::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& [parameter, value] : parts_) {
    gradients.push_back(gradient_of(parameter, value));
  }
  return gradients;
}

void TttParameters::zero_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& row : table_.rows()) {
    if (!row.exported || row.update.rule == UpdateRule::constant) continue;
    auto& gradient = at::Tensor(row.value).mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(row.value.detach());
    gradient.zero_();
  }
}

void TttParameters::unscale(const std::vector<at::Tensor>& gradients) {
  loss_scale_->unscale(gradients);
  const auto overflowed = global_norm(gradients).isfinite().logical_not();
  for (const auto& gradient : gradients) at::Tensor(gradient).masked_fill_(overflowed, 0);
  loss_scale_->update(overflowed.to(at::kFloat));
}

void TttParameters::step(Communicator& communicator, std::int64_t means, double max_norm,
                         double lr) {
  const at::NoGradGuard no_grad;
  if (parts_.empty()) return;
  const auto gradients = this->gradients();
  if (communicator.world_size() > 1) {
    sum_packed(gradients, communicator);
    at::_foreach_div_(gradients, static_cast<double>(means));
  }
  if (loss_scale_) unscale(gradients);
  if (max_norm > 0) {
    at::_foreach_mul_(gradients, clip_factor(global_norm(gradients), max_norm));
  }
  sgd_->step(gradients, lr);
}

}  // namespace tg
