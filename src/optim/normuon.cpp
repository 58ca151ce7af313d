#include "optim/normuon.h"

#include "ops/optim/muon_update.h"
#include "ops/optim/normuon_update.h"

namespace tg {

namespace {

constexpr double kSafety = 1.02, kEpsilon = 1e-6;

}  // namespace

NorMuon::NorMuon(ParameterRows rows, const MuonOptions& options, double beta2,
                 Communicator& communicator)
    : MatrixOptimizer(std::move(rows), options, communicator), beta2_(beta2) {
  for (const auto& [name, value, first_chunk] : shards_) {
    auto sizes = value.sizes().vec();
    sizes[static_cast<std::size_t>(value.dim() + variance_dim(value))] = 1;
    momentum_.push_back(at::zeros_like(value));
    second_momentum_.push_back(at::zeros(sizes, value.options()));
  }
}

at::Tensor NorMuon::update_of(std::size_t bank, const at::Tensor& gradient,
                              const Momentum& momentum) {
  const auto& [mu, clip, skip] = momentum;
  const auto ahead = averaged_momentum(momentum_[bank], gradient, mu, clip, skip, options_.dtype);
  return normalized_variance(orthogonalized(ahead, kSafety, kEpsilon), second_momentum_[bank],
                             beta2_, skip);
}

}  // namespace tg
