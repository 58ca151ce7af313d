#include "optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <iterator>

#include "base/is_in.h"
#include "optim/adam.h"
#include "optim/gradient_norm.h"
#include "optim/normuon.h"

namespace tg {

namespace {

// Muon multiplies each row's learning rate and decay by its own multipliers, so that rows of all
// multipliers are in one group, whose gathers and iterations overlap.
bool updated_together(const Parameter& a, const Parameter& b) {
  if (a.value.scalar_type() != b.value.scalar_type()) return false;
  return a.update.by_matrix() ? a.update.differs_only_in_multipliers(b.update)
                              : a.update == b.update;
}

// The parameter groups; groups, and the rows of each, are in the table's order.
std::vector<ParameterRows> groups_of(const ParameterTable& table) {
  std::vector<ParameterRows> all;
  for (const auto& row : table.rows()) {
    if (!row.update.optimized()) continue;
    const auto rows = std::ranges::find_if(
        all, [&](const ParameterRows& others) { return updated_together(*others.front(), row); });
    (rows == all.end() ? all.emplace_back() : *rows).push_back(&row);
  }
  return all;
}

ParameterRows delayed_rows(const ParameterTable& table, const OptimConfig& config) {
  ParameterRows rows;
  for (const auto& row : table.rows()) {
    if (const auto every = row.update.every; every != nullptr && config.*every > 1)
      rows.push_back(&row);
  }
  return rows;
}

std::unique_ptr<GroupOptimizer> optimizer_of(const ParameterRows& rows, const OptimConfig& config,
                                             at::ScalarType matrices, Communicator& communicator) {
  const auto& update = rows.front()->update;
  const double lr = config.*update.lr;
  const double weight_decay = update.weight_decay == nullptr ? 0.0 : update.weight_decay(config);
  const auto betas = update.betas.value_or(AdamBetas{config.beta1, config.beta2});
  const AdamOptions adam_options{.lr = lr * update.lr_multiplier,
                                 .weight_decay = weight_decay * update.wd_multiplier,
                                 .beta1 = betas.beta1,
                                 .beta2 = betas.beta2,
                                 .epsilon = config.adam_eps,
                                 .cautious = config.cautious_wd};
  switch (update.rule) {
    case UpdateRule::adamw:
      return std::make_unique<AdamW>(rows, adam_options, communicator);
    case UpdateRule::adam:
      return std::make_unique<Adam>(rows, adam_options, communicator);
    case UpdateRule::muon: {
      const auto steps = config.muon_coefficients == MuonCoefficients::polar_express
                             ? polar_express(config.muon_backend_steps)
                             : muon_quintic(config.muon_backend_steps);
      const MuonOptions options{.lr = lr,
                                .weight_decay = weight_decay,
                                .cautious = config.cautious_wd,
                                .steps = steps,
                                .normalize_rows = config.muon_row_normalize,
                                .dtype = matrices};
      if (!config.normuon) return std::make_unique<Muon>(rows, options, communicator);
      return std::make_unique<NorMuon>(rows, options, config.muon_beta2, communicator);
    }
    case UpdateRule::none:
    case UpdateRule::constant:
      break;
  }
  std::abort();  // groups_of() skips these
}

}  // namespace

Optimizer::Optimizer(const ParameterTable& table, const OptimConfig& optim,
                     const OptimizerOptions& options, Communicator& communicator)
    : table_(table),
      communicator_(communicator),
      record_quirks_(options.record_quirks),
      delayed_(delayed_rows(table, optim)),
      tied_(tied_rows(table)),
      reduction_(table, communicator, options.matrices),
      kept_(table, communicator.rank()),
      sums_(delayed_) {
  for (const auto& rows : groups_of(table))
    groups_.push_back(optimizer_of(rows, optim, options.matrices, communicator));
  for (const auto& group : groups_) in_step_order_.push_back(group.get());
  std::ranges::stable_sort(in_step_order_, {},
                           [](const auto* group) { return group->rows().front()->update.rule; });
  if (options.scaled_tokens > 0) {
    loss_scale_.emplace(table.rows().front().value.device(), options.scaled_tokens);
  }
}

void Optimizer::choose_rows(bool updates_all, Tie tie) {
  updates_all_ = updates_all;
  tie_ = tie;
  left_out_ = updates_all_ ? ParameterRows() : delayed_;
  following_.clear();
  if (tie_ != Tie::none) {
    for (const auto& tied : tied_) {
      if (is_in(left_out_, tied.to)) continue;
      following_.push_back(tied);
      left_out_.push_back(tied.row);
    }
  }
  reduction_.leave_out(left_out_);
}

GroupOptimizer& Optimizer::group_of(const Parameter& row) const {
  const auto group =
      std::ranges::find_if(groups_, [&](const auto& each) { return is_in(each->rows(), &row); });
  assert(group != groups_.end());
  return **group;
}

std::vector<at::Tensor> Optimizer::gradients(const ParameterRows& but) const {
  std::vector<at::Tensor> all;
  for (const auto& row : table_.rows()) {
    if (row.value.grad().defined() && !is_in(but, &row)) all.push_back(row.value.grad());
  }
  return all;
}

void Optimizer::reduce(const at::Tensor& metrics, double max_norm) {
  const at::NoGradGuard no_grad;
  if (loss_scale_) loss_scale_->unscale(gradients());
  if (updates_all_) sums_.take();
  add_tied_gradients(following_);
  if (record_quirks_) {
    // The reference implementation divides by a rank's own number of micro-batches until the mean
    // over ranks is taken.
    const auto local = reduction_.local_gradients();
    local_norm_ = global_norm(local).to(at::kFloat) * communicator_.world_size();
    if (max_norm > 0) at::_foreach_mul_(local, clip_factor(local_norm_, max_norm));
  }
  reduction_.reduce(metrics);
}

at::Tensor Optimizer::clip(double max_norm) {
  const at::NoGradGuard no_grad;
  if (record_quirks_) {
    clip_ = at::ones_like(local_norm_);
    // Makes a non-finite norm on one rank non-finite on all, since the norms differ between ranks.
    const auto all_finite = local_norm_ * 0;
    communicator_.sum(all_finite).wait();
    return local_norm_ + all_finite;
  }
  const auto norm = reduction_.norm();
  clip_ = max_norm > 0 ? clip_factor(norm, max_norm) : at::ones_like(norm);
  if (max_norm > 0) reduction_.scale_all_but_matrices(clip_);
  return norm;
}

void Optimizer::step(const StepScalars& scalars) {
  std::vector<Completion> completions;
  for (auto* group : in_step_order_) {
    if (is_in(left_out_, group->rows().front())) continue;
    std::vector<at::Tensor> row_gradients;
    for (const auto* row : group->rows()) row_gradients.push_back(reduction_.gradient(*row));
    std::ranges::move(group->step(scalars, row_gradients, clip_), std::back_inserter(completions));
  }
  // While parameters are gathered.
  kept_.end_step(scalars.skip);
  if (updates_all_) {
    zero_gradients();
  } else {
    sums_.add(scalars.skip);
    zero_gradients(delayed_);
  }
  for (const auto& complete : completions) complete();
  copy_tied_values(following_);
  if (tie_ == Tie::splits) {
    for (const auto& [row, to] : tied_) group_of(*row).copy_state(*row, group_of(*to), *to);
  }
  if (loss_scale_) loss_scale_->update(scalars.skip);
}

void Optimizer::zero_gradients(const ParameterRows& but) {
  const at::NoGradGuard no_grad;
  reduction_.drop_shards();
  at::_foreach_zero_(gradients(but));
}

NamedTensors Optimizer::replicated_state() const {
  NamedTensors all;
  for (const auto& group : groups_)
    std::ranges::move(group->replicated_state(), std::back_inserter(all));
  if (loss_scale_) std::ranges::move(loss_scale_->state(), std::back_inserter(all));
  return all;
}

NamedTensors Optimizer::sharded_state() const {
  NamedTensors all;
  for (const auto& group : groups_)
    std::ranges::move(group->sharded_state(), std::back_inserter(all));
  return all;
}

}  // namespace tg
