#include "optim/optimizer.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "optim/gradient_norm.h"
#include "optim/param_groups.h"

namespace tg {

namespace {

using Rows = std::vector<const Parameter*>;

Rows of_group(const ParameterTable& table, ParamGroup group) {
  Rows found;
  for (const auto& row : table.rows()) {
    if (row.group == group) found.push_back(&row);
  }
  return found;
}

// Those of one dtype together, as AdamW takes them.
std::map<at::ScalarType, Rows> by_dtype(const Rows& rows) {
  std::map<at::ScalarType, Rows> parts;
  for (const auto* row : rows) parts[row->value.scalar_type()].push_back(row);
  return parts;
}

std::vector<Shard> shards_of(const Rows& rows, const Communicator& communicator) {
  std::vector<Shard> shards;
  for (const auto* row : rows) shards.push_back(shard_of(*row, communicator));
  return shards;
}

NamedTensors banks_of(const Rows& rows) {
  NamedTensors banks;
  for (const auto* row : rows)
    banks.emplace_back(row->name, as_chunks(row->value.detach(), row->group));
  return banks;
}

MuonOptions muon_options(const ModelConfig& model, const OptimConfig& optim, at::ScalarType dtype) {
  const auto [lr, weight_decay] = rate_of(ParamGroup::muon, optim, model.tie_embeddings);
  return {lr, weight_decay, optim.muon_backend_steps, dtype};
}

}  // namespace

Optimizer::Optimizer(const ParameterTable& table, const ModelConfig& model,
                     const OptimConfig& optim, const OptimizerOptions& options,
                     Communicator& communicator)
    : table_(table),
      communicator_(communicator),
      record_quirks_(options.record_quirks),
      reduction_(table, communicator, options.matrices),
      kept_(table, communicator.rank()),
      banks_(of_group(table, ParamGroup::muon)),
      muon_(banks_of(banks_), muon_options(model, optim, options.matrices), communicator) {
  for (const auto group : {ParamGroup::embedding, ParamGroup::scalar, ParamGroup::head}) {
    const auto [lr, weight_decay] = rate_of(group, optim, model.tie_embeddings);
    const AdamWOptions adamw{lr, weight_decay, optim.beta1, optim.beta2, optim.adam_eps};
    for (const auto& [dtype, rows] : by_dtype(of_group(table, group)))
      adamw_.push_back({rows, AdamW(shards_of(rows, communicator), adamw)});
  }
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
  if (max_norm > 0) reduction_.scale_all_but_banks(clip_);
  return norm;
}

std::vector<at::Tensor> Optimizer::gradients_of(const Rows& rows) const {
  std::vector<at::Tensor> gradients;
  for (const auto* row : rows) gradients.push_back(reduction_.gradient(*row));
  return gradients;
}

void Optimizer::step(const StepScalars& scalars) {
  std::vector<ParameterGather> gathers;
  for (auto& [rows, adamw] : adamw_) {
    adamw.step(scalars, gradients_of(rows));
    for (const auto* row : rows) gathers.emplace_back(*row, communicator_);
  }
  muon_.step(scalars, gradients_of(banks_), clip_);
  for (auto& gather : gathers) gather.wait();
  kept_.end_step(scalars.skip);
  if (loss_scale_) loss_scale_->update(scalars.skip);
}

void Optimizer::zero_gradients() {
  const at::NoGradGuard no_grad;
  reduction_.drop_shards();
  std::vector<at::Tensor> gradients;
  for (const auto& row : table_.rows()) {
    if (row.value.grad().defined()) gradients.push_back(row.value.grad());
  }
  at::_foreach_zero_(gradients);
}

NamedTensors Optimizer::replicated_state() const {
  NamedTensors all;
  for (const auto& group : adamw_)
    std::ranges::move(group.adamw.replicated_state(), std::back_inserter(all));
  if (loss_scale_) std::ranges::move(loss_scale_->state(), std::back_inserter(all));
  return all;
}

NamedTensors Optimizer::sharded_state() const {
  auto all = muon_.state();
  for (const auto& group : adamw_)
    std::ranges::move(group.adamw.sharded_state(), std::back_inserter(all));
  return all;
}

}  // namespace tg
