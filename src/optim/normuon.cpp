#include "optim/normuon.h"

#include "ops/optim/muon_update.h"
#include "ops/optim/normuon_update.h"

namespace tg {

namespace {

constexpr double kSafety = 1.02, kEpsilon = 1e-6;

// The dimension that second moments average over.
std::int64_t averaged_dim(const at::Tensor& matrices, const Update& update) {
  const auto rows = matrices.size(-2), columns = matrices.size(-1);
  return rows > columns || (rows == columns && update.square_moments_by_row) ? -1 : -2;
}

}  // namespace

NorMuon::NorMuon(ParameterRows rows, const MuonOptions& options, double beta2,
                 Communicator& communicator)
    : MatrixOptimizer(std::move(rows), options, communicator), beta2_(beta2) {
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto& value = shards_[i].value;
    auto sizes = value.sizes().vec();
    sizes[static_cast<std::size_t>(value.dim() + averaged_dim(value, rows_[i]->update))] = 1;
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
