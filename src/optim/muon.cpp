#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "ops/newton_schulz.h"

namespace tg {

Muon::Muon(std::vector<std::pair<std::string, at::Tensor>> banks, const MuonOptions& options)
    : banks_(std::move(banks)), options_(options) {
  for (const auto& [name, bank] : banks_) {
    momentum_.push_back(
        at::zeros_like(bank, bank.options().dtype(options_.dtype).requires_grad(false)));
  }
}

void Muon::step(const StepScalars& scalars) {
  const at::NoGradGuard no_grad;
  // A skipped step keeps the momentum (factor 1, gradient 0) and changes no weight (rate 0).
  const auto skip = scalars.skip.to(at::kBool);
  const auto lr = at::where(skip, 0.0, scalars.lr_scale * options_.lr);
  const auto keep = at::where(skip, 1.0, scalars.momentum);
  const auto scalar_dtype = options_.dtype == at::kDouble ? at::kDouble : at::kFloat;
  for (std::size_t i = 0; i < banks_.size(); ++i) {
    const auto bank = banks_[i].second.detach();
    const auto gradient = at::where(skip, 0.0, banks_[i].second.grad().to(options_.dtype));
    // In a half-precision product μ itself would be rounded, 0.99 to 0.98828: a memory of 85 steps.
    const auto& momentum = momentum_[i];
    momentum.copy_(momentum.to(scalar_dtype).mul_(keep).add_(gradient));
    const auto ahead = momentum.to(scalar_dtype) * keep + gradient;
    const auto update = newton_schulz(ahead.to(options_.dtype), options_.newton_schulz_steps);
    const double shape = static_cast<double>(bank.size(-2)) / static_cast<double>(bank.size(-1));
    bank.mul_(1 - lr * options_.weight_decay);
    bank.addcmul_(update.to(bank.scalar_type()), lr.to(bank.scalar_type()),
                  -std::sqrt(std::max(1.0, shape)));
  }
}

std::vector<std::pair<std::string, at::Tensor>> Muon::state() const {
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (std::size_t i = 0; i < banks_.size(); ++i) {
    state.emplace_back("momentum." + banks_[i].first, momentum_[i]);
  }
  return state;
}

}  // namespace tg
