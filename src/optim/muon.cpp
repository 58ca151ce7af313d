#include "optim/muon.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/optim/muon_update.h"
#include "ops/optim/newton_schulz.h"
#include "ops/pad.h"
#include "optim/reduction.h"

namespace tg {

Muon::Muon(std::vector<std::pair<std::string, at::Tensor>> banks, const MuonOptions& options,
           Communicator& communicator)
    : banks_(std::move(banks)), options_(options), communicator_(communicator) {
  const auto world = communicator.world_size();
  for (const auto& [name, bank] : banks_) {
    const auto share = matrices_of_a_rank(bank.size(0), world);
    const auto buffer = bank.options().dtype(options_.dtype).requires_grad(false);
    momentum_.push_back(at::zeros({share, bank.size(1), bank.size(2)}, buffer));
    gathered_.push_back(
        world == 1 ? at::Tensor() : at::empty({share * world, bank.size(1), bank.size(2)}, buffer));
  }
}

void Muon::step(const StepScalars& scalars, const std::vector<at::Tensor>& gradients,
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
        pending[i] = communicator_.all_gather(updates[i], mine.contiguous());
      }
    }
    if (i == 0) continue;
    pending[i - 1].wait();
    apply(i - 1, updates[i - 1], rate);
  }
}

at::Tensor Muon::update_of(std::size_t bank, const at::Tensor& gradient, const at::Tensor& mu,
                           const at::Tensor& clip, const at::Tensor& skip) {
  const auto ahead = nesterov_momentum(momentum_[bank], gradient, mu, clip, skip);
  return newton_schulz(ahead, options_.newton_schulz_steps,
                       row_multiple(ahead.device(), ahead.scalar_type()));
}

void Muon::apply(std::size_t i, const at::Tensor& updates, const at::Tensor& rate) {
  const auto bank = banks_[i].second.detach();
  const double shape = static_cast<double>(bank.size(-2)) / static_cast<double>(bank.size(-1));
  decayed_step(bank, updates.narrow(0, 0, bank.size(0)), rate, options_.weight_decay,
               std::sqrt(std::max(1.0, shape)));
}

std::vector<std::pair<std::string, at::Tensor>> Muon::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (std::size_t i = 0; i < banks_.size(); ++i) {
    const auto& [name, bank] = banks_[i];
    const auto share = momentum_[i].size(0), first = communicator_.rank() * share;
    for (std::int64_t matrix = first; matrix < std::min(first + share, bank.size(0)); ++matrix) {
      state.emplace_back(fmt::format("momentum.{}.{}", name, matrix), momentum_[i][matrix - first]);
    }
  }
  return state;
}

}  // namespace tg
