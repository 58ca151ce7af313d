#include "optim/muon.h"

#include <algorithm>
#include <cassert>

#include "ops/optim/muon_update.h"
#include "ops/pad.h"

namespace tg {

Muon::Muon(ParameterRows rows, const MuonOptions& options, Communicator& communicator,
           at::ScalarType momentum)
    : GroupOptimizer(std::move(rows), communicator), options_(options) {
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto& value = values.emplace_back(shards_[i].value);
    const bool is_bank = value.dim() == 3;
    const auto of_its_shape = std::ranges::find_if(batches_, [&](const Batch& batch) {
      return !is_bank && !batch.is_bank && values[batch.rows[0]].sizes() == value.sizes();
    });
    if (of_its_shape == batches_.end())
      batches_.push_back({.rows = {i}, .is_bank = is_bank});
    else
      of_its_shape->rows.push_back(i);
  }
  const auto world = communicator.world_size();
  for (auto& batch : batches_) {
    momentum_.push_back(at::zeros_like(joined(batch, values), momentum));
    if (world == 1 || !batch.is_bank) continue;
    const auto& bank = rows_[batch.rows[0]]->value;
    const auto per_rank = chunks_of_rank(bank.size(0), communicator).per_rank;
    batch.gathered = empty_chunks(bank.detach(), per_rank * world, options_.dtype).zero_();
  }
}

at::Tensor Muon::joined(const Batch& batch, const std::vector<at::Tensor>& by_row) {
  if (batch.is_bank) return by_row[batch.rows[0]];
  std::vector<at::Tensor> matrices;
  for (const auto row : batch.rows) matrices.push_back(by_row[row]);
  return at::stack(matrices);
}

std::vector<at::Tensor> Muon::split_by_row(const std::vector<at::Tensor>& by_batch) const {
  std::vector<at::Tensor> all(rows_.size());
  for (std::size_t b = 0; b < batches_.size(); ++b) {
    const auto& [rows, is_bank, gathered] = batches_[b];
    for (std::size_t k = 0; k < rows.size(); ++k)
      all[rows[k]] = is_bank ? by_batch[b] : by_batch[b][static_cast<std::int64_t>(k)];
  }
  return all;
}

std::vector<Completion> Muon::step(const StepScalars& scalars,
                                   const std::vector<at::Tensor>& gradients,
                                   const at::Tensor& clip) {
  const at::NoGradGuard no_grad;
  // A skipped step keeps the state and uses a learning rate of 0.
  const Momentum momentum{scalars.momentum, clip, scalars.skip.to(at::kBool)};
  const auto rate = at::where(momentum.skip, 0.0, scalars.lr_scale * options_.lr);
  std::vector<Completion> completions;
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    const auto& batch = batches_[i];
    const auto gradient = joined(batch, gradients).to(options_.dtype);
    const bool none = gradient.size(0) == 0;  // more ranks than matrices
    const auto mine =
        none ? gradient : update_of(i, split(i, gradient), momentum).view(gradient.sizes());
    if (!batch.gathered.defined()) {
      apply(batch, mine, rate);
      continue;
    }
    // Waiting here would also wait for what is gathered before, such as tables.
    completions.emplace_back(
        [this, &batch, rate,
         pending = gather_chunks(batch.gathered, mine, communicator_)]() mutable {
          pending.wait();
          apply(batch, batch.gathered, rate);
        });
  }
  return completions;
}

at::Tensor Muon::update_of(std::size_t batch, const at::Tensor& gradient,
                           const Momentum& momentum) {
  const auto& [mu, clip, skip] = momentum;
  return orthogonalized(
      nesterov_momentum(split(batch, momentum_[batch]), gradient, mu, clip, skip));
}

const Update& Muon::update(std::size_t batch) const {
  return rows_[batches_[batch].rows[0]]->update;
}

at::Tensor Muon::split(std::size_t batch, const at::Tensor& tensor) const {
  const auto parts = update(batch).row_parts;
  return parts == 1 ? tensor : tensor.view({-1, tensor.size(-2) / parts, tensor.size(-1)});
}

at::Tensor Muon::orthogonalized(const at::Tensor& x, double safety, double epsilon) const {
  return orthogonalize(x, {.steps = options_.steps,
                           .normalize_rows = options_.normalize_rows,
                           .multiple = row_multiple(x.device(), x.scalar_type()),
                           .safety = safety,
                           .epsilon = epsilon});
}

void Muon::apply(const Batch& batch, const at::Tensor& updates, const at::Tensor& rate) {
  if (batch.is_bank) return apply_to_row(batch.rows[0], updates, rate);
  for (std::size_t k = 0; k < batch.rows.size(); ++k)
    apply_to_row(batch.rows[k], updates.narrow(0, static_cast<std::int64_t>(k), 1), rate);
}

void Muon::apply_to_row(std::size_t row, const at::Tensor& updates, const at::Tensor& rate) {
  const auto& update = rows_[row]->update;
  const auto bank = as_chunks(rows_[row]->value.detach(), update);
  const auto step = options_.cautious ? cautiously_decayed_step : decayed_step;
  const auto parts = update.parts.empty() ? std::vector<PartMultipliers>(1) : update.parts;
  const auto matrices = bank.size(0) / std::ssize(parts);
  assert(matrices * std::ssize(parts) == bank.size(0));
  std::int64_t first = 0;
  for (const auto& [lr, wd] : parts) {
    step(bank.narrow(0, first, matrices), updates.narrow(0, first, matrices), rate,
         options_.weight_decay * update.wd_multiplier * wd, update.lr_multiplier * lr);
    first += matrices;
  }
}

}  // namespace tg
