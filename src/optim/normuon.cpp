#include "optim/normuon.h"

#include "ops/optim/muon_update.h"
#include "ops/optim/normuon_update.h"

namespace tg {

namespace {

constexpr double kSafety = 1.02, kEpsilon = 1e-6;

// Sizes of the second moments of matrices [n, rows, columns]: one for each row, or one for each
// column of each of the Update::row_parts.
std::vector<std::int64_t> moment_sizes(const at::Tensor& matrices, const Update& update) {
  auto sizes = matrices.sizes().vec();
  const auto columns = sizes.back(), rows = sizes[sizes.size() - 2] / update.row_parts;
  if (rows > columns || (rows == columns && update.square_moments_by_row))
    sizes.back() = 1;
  else
    sizes[sizes.size() - 2] = update.row_parts;
  return sizes;
}

}  // namespace

NorMuon::NorMuon(ParameterRows rows, const MuonOptions& options, double beta2,
                 Communicator& communicator)
    : Muon(rows, options, communicator, rows.front()->value.scalar_type()), beta2_(beta2) {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    second_momentum_.push_back(
        at::zeros(moment_sizes(momentum_[i], update(i)), momentum_[i].options()));
  }
}

at::Tensor NorMuon::update_of(std::size_t batch, const at::Tensor& gradient,
                              const Momentum& momentum) {
  const auto& [mu, clip, skip] = momentum;
  const auto ahead =
      averaged_momentum(split(batch, momentum_[batch]), gradient, mu, clip, skip, options_.dtype);
  return normalized_variance(orthogonalized(ahead, kSafety, kEpsilon),
                             split(batch, second_momentum_[batch]), beta2_, skip);
}

}  // namespace tg
