#include "optim/muon.h"

#include "ops/optim/muon_update.h"
#include "ops/pad.h"

namespace tg {

Muon::Muon(ParameterRows rows, MuonOptions options, Communicator& communicator)
    : GroupOptimizer(std::move(rows), communicator), options_(std::move(options)) {
  const auto world = communicator.world_size();
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const auto& bank = banks_.emplace_back(as_chunks(rows_[i]->value.detach(), rows_[i]->update));
    const auto buffers = [&](std::int64_t matrices) {
      return empty_chunks(bank, matrices, options_.dtype).zero_();
    };
    momentum_.push_back(buffers(shards_[i].value.size(0)));
    const auto per_rank = chunks_of_rank(bank.size(0), communicator).per_rank;
    gathered_.push_back(world == 1 ? at::Tensor() : buffers(per_rank * world));
  }
}

std::vector<ParameterGather> Muon::step(const StepScalars& scalars,
                                        const std::vector<at::Tensor>& gradients,
                                        const at::Tensor& clip) {
  const at::NoGradGuard no_grad;
  // A skipped step keeps the momentum and changes no weight (rate 0).
  const auto skip = scalars.skip.to(at::kBool);
  const auto rate = at::where(skip, 0.0, scalars.lr_scale * options_.lr);
  std::vector<Pending> pending(banks_.size());
  std::vector<at::Tensor> updates = gathered_;
  for (std::size_t i = 0; i <= banks_.size(); ++i) {
    if (i < banks_.size()) {
      const auto mine = update_of(i, gradients[i], scalars.momentum, clip, skip);
      if (communicator_.world_size() == 1) {
        updates[i] = mine;
      } else {
        pending[i] = gather(i, mine);
      }
    }
    if (i == 0) continue;
    pending[i - 1].wait();
    apply(i - 1, updates[i - 1], rate);
  }
  return {};
}

at::Tensor Muon::update_of(std::size_t bank, const at::Tensor& gradient, const at::Tensor& mu,
                           const at::Tensor& clip, const at::Tensor& skip) {
  if (gradient.size(0) == 0) return gradient;  // more ranks than matrices
  const auto ahead = nesterov_momentum(momentum_[bank], gradient, mu, clip, skip);
  return orthogonalize(ahead, {.steps = options_.steps,
                               .normalize_rows = options_.normalize_rows,
                               .multiple = row_multiple(ahead.device(), ahead.scalar_type())});
}

Pending Muon::gather(std::size_t bank, const at::Tensor& mine) {
  const auto all = gathered_[bank];
  const auto per_rank = all.size(0) / communicator_.world_size();
  const auto own = all.narrow(0, communicator_.rank() * per_rank, per_rank);
  own.narrow(0, 0, mine.size(0)).copy_(mine);
  return communicator_.all_gather(all, own);
}

void Muon::apply(std::size_t i, const at::Tensor& updates, const at::Tensor& rate) {
  const auto& bank = banks_[i];
  decayed_step(bank, updates.narrow(0, 0, bank.size(0)), rate, options_.weight_decay,
               rows_[i]->update.lr_multiplier);
}

}  // namespace tg
