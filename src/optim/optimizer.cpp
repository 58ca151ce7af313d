#include "optim/optimizer.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "optim/gradient_norm.h"
#include "optim/param_groups.h"

namespace tg {

namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

Named of_group(const ParameterTable& table, ParamGroup group) {
  Named found;
  for (const auto& row : table.rows()) {
    if (row.group == group) found.emplace_back(row.name, row.value);
  }
  return found;
}

// Those of one dtype together, as AdamW takes them.
std::map<at::ScalarType, Named> by_dtype(Named parameters) {
  std::map<at::ScalarType, Named> parts;
  for (auto& named : parameters) parts[named.second.scalar_type()].push_back(std::move(named));
  return parts;
}

Named banks_of(const ParameterTable& table) {
  auto banks = of_group(table, ParamGroup::muon);
  for (auto& [name, value] : banks) value = as_bank(value.detach());
  return banks;
}

}  // namespace

Optimizer::Optimizer(const ParameterTable& table, const ModelConfig& model,
                     const OptimConfig& optim, const OptimizerOptions& options,
                     Communicator& communicator)
    : table_(table),
      communicator_(communicator),
      record_quirks_(options.record_quirks),
      reduction_(table, communicator, options.matrices) {
  for (const auto group : {ParamGroup::embedding, ParamGroup::scalar, ParamGroup::head}) {
    const auto [lr, weight_decay] = rate_of(group, optim, model.tie_embeddings);
    for (auto& [dtype, parameters] : by_dtype(of_group(table, group))) {
      adamw_.emplace_back(std::move(parameters),
                          AdamWOptions{lr, weight_decay, optim.beta1, optim.beta2, optim.adam_eps});
    }
  }
  const auto [lr, weight_decay] = rate_of(ParamGroup::muon, optim, model.tie_embeddings);
  muon_.emplace_back(banks_of(table),
                     MuonOptions{lr, weight_decay, optim.muon_backend_steps, options.matrices},
                     communicator);
  if (options.scaled_tokens > 0) {
    loss_scale_.emplace(table.rows().front().value.device(), options.scaled_tokens);
  }
}

void Optimizer::reduce(const at::Tensor& metrics, double max_norm) {
  const at::NoGradGuard no_grad;
  if (loss_scale_) loss_scale_->unscale(reduction_.local_gradients());
  if (record_quirks_) {
    // The reference implementation divides by a rank's own micro-batches until the ranks' mean is
    // taken.
    local_norm_ = reduction_.local_norm() * communicator_.world_size();
    if (max_norm > 0) reduction_.scale_local(clip_factor(local_norm_, max_norm));
  }
  reduction_.reduce(metrics);
}

at::Tensor Optimizer::clip(double max_norm) {
  const at::NoGradGuard no_grad;
  if (record_quirks_) {
    clip_ = at::ones_like(local_norm_);
    // The norms differ between ranks; whether all of them are finite must not.
    const auto all_finite = local_norm_ * 0;
    communicator_.sum(all_finite).wait();
    return local_norm_ + all_finite;
  }
  const auto norm = reduction_.norm();
  clip_ = max_norm > 0 ? clip_factor(norm, max_norm) : at::ones_like(norm);
  if (max_norm > 0) reduction_.scale_replicated(clip_);
  return norm;
}

void Optimizer::step(const StepScalars& scalars) {
  for (auto& adamw : adamw_) adamw.step(scalars);
  for (auto& muon : muon_) muon.step(scalars, reduction_.shards(), clip_);
  reduction_.drop_unreduced(scalars.skip);
  if (loss_scale_) loss_scale_->update(scalars.skip);
}

void Optimizer::zero_gradients() {
  const at::NoGradGuard no_grad;
  reduction_.drop_shards();
  std::vector<at::Tensor> gradients;
  for (const auto& row : table_.rows()) {
    if (row.group == ParamGroup::none) continue;
    if (row.value.grad().defined()) gradients.push_back(row.value.grad());
  }
  at::_foreach_zero_(gradients);
}

Optimizer::NamedState Optimizer::replicated_state() const {
  NamedState all;
  for (const auto& adamw : adamw_) std::ranges::move(adamw.state(), std::back_inserter(all));
  if (loss_scale_) std::ranges::move(loss_scale_->state(), std::back_inserter(all));
  return all;
}

Optimizer::NamedState Optimizer::sharded_state() const {
  NamedState all;
  for (const auto& muon : muon_) std::ranges::move(muon.state(), std::back_inserter(all));
  return all;
}

}  // namespace tg
