#include "optim/muon.h"

#include <cassert>

#include "ops/optim/muon_update.h"
#include "ops/pad.h"

namespace tg {

Muon::Muon(ParameterRows rows, const MuonOptions& options, Communicator& communicator,
           at::ScalarType momentum)
    : GroupOptimizer(std::move(rows), communicator), options_(options) {
  for (const auto& shard : shards_) momentum_.push_back(at::zeros_like(shard.value, momentum));
  const auto world = communicator.world_size();
  for (const auto* row : rows_) {
    const auto& bank = banks_.emplace_back(as_chunks(row->value.detach(), row->update));
    const auto per_rank = chunks_of_rank(bank.size(0), communicator).per_rank;
    gathered_.push_back(world == 1 ? at::Tensor()
                                   : empty_chunks(bank, per_rank * world, options_.dtype).zero_());
  }
}

std::vector<Completion> Muon::step(const StepScalars& scalars,
                                   const std::vector<at::Tensor>& gradients,
                                   const at::Tensor& clip) {
  const at::NoGradGuard no_grad;
  // A skipped step keeps the state and uses a learning rate of 0.
  const Momentum momentum{scalars.momentum, clip, scalars.skip.to(at::kBool)};
  const auto rate = at::where(momentum.skip, 0.0, scalars.lr_scale * options_.lr);
  std::vector<Completion> completions;
  for (std::size_t i = 0; i < banks_.size(); ++i) {
    const bool none = gradients[i].size(0) == 0;  // more ranks than matrices
    const auto mine =
        none ? gradients[i]
             : update_of(i, split(i, gradients[i]), momentum).view(gradients[i].sizes());
    if (communicator_.world_size() == 1) {
      apply(i, mine, rate);
      continue;
    }
    // Waiting here would also wait for what is gathered before, such as tables.
    completions.emplace_back(
        [this, i, rate, pending = gather_chunks(gathered_[i], mine, communicator_)]() mutable {
          pending.wait();
          apply(i, gathered_[i], rate);
        });
  }
  return completions;
}

at::Tensor Muon::update_of(std::size_t bank, const at::Tensor& gradient, const Momentum& momentum) {
  const auto& [mu, clip, skip] = momentum;
  return orthogonalized(nesterov_momentum(split(bank, momentum_[bank]), gradient, mu, clip, skip));
}

at::Tensor Muon::split(std::size_t bank, const at::Tensor& tensor) const {
  const auto parts = rows_[bank]->update.row_parts;
  return parts == 1 ? tensor : tensor.view({-1, tensor.size(-2) / parts, tensor.size(-1)});
}

at::Tensor Muon::orthogonalized(const at::Tensor& x, double safety, double epsilon) const {
  return orthogonalize(x, {.steps = options_.steps,
                           .normalize_rows = options_.normalize_rows,
                           .multiple = row_multiple(x.device(), x.scalar_type()),
                           .safety = safety,
                           .epsilon = epsilon});
}

void Muon::apply(std::size_t i, const at::Tensor& updates, const at::Tensor& rate) {
  const auto& bank = banks_[i];
  const auto step = options_.cautious ? cautiously_decayed_step : decayed_step;
  const auto& update = rows_[i]->update;
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
