#include "optim/muon.h"

#include "ops/optim/muon_update.h"

namespace tg {

Muon::Muon(ParameterRows rows, const MuonOptions& options, Communicator& communicator)
    : MatrixOptimizer(std::move(rows), options, communicator) {
  for (const auto& shard : shards_) momentum_.push_back(at::zeros_like(shard.value, options.dtype));
}

at::Tensor Muon::update_of(std::size_t bank, const at::Tensor& gradient, const Momentum& momentum) {
  const auto& [mu, clip, skip] = momentum;
  return orthogonalized(nesterov_momentum(split(bank, momentum_[bank]), gradient, mu, clip, skip));
}

}  // namespace tg
