#include "optim/normuon.h"

namespace tg {

namespace {

constexpr double kSafety = 1.02, kEpsilon = 1e-6, kLeast = 1e-10;

// The dimension that second moments average over.
std::int64_t averaged_dim(const at::Tensor& matrices) {
  return matrices.size(-2) > matrices.size(-1) ? -1 : -2;
}

at::Tensor norms(const at::Tensor& matrices) {
  return matrices.norm(2, {-2, -1}, /*keepdim=*/true);
}

}  // namespace

NorMuon::NorMuon(ParameterRows rows, const MuonOptions& options, double beta2,
                 Communicator& communicator)
    : MatrixOptimizer(std::move(rows), options, communicator), beta2_(beta2) {
  for (const auto& [name, value, first_chunk] : shards_) {
    auto sizes = value.sizes().vec();
    sizes[static_cast<std::size_t>(value.dim() + averaged_dim(value))] = 1;
    momentum_.push_back(at::zeros_like(value));
    second_momentum_.push_back(at::zeros(sizes, value.options()));
  }
}

at::Tensor NorMuon::update_of(std::size_t bank, const at::Tensor& gradient,
                              const Momentum& momentum) {
  const auto ahead = lookahead(bank, gradient, momentum).to(options_.dtype);
  const auto x = orthogonalized(ahead, kSafety, kEpsilon);
  return normalized(bank, x, momentum.skip).to(options_.dtype);
}

at::Tensor NorMuon::lookahead(std::size_t bank, const at::Tensor& gradient,
                              const Momentum& momentum) {
  const auto& b = momentum_[bank];
  const auto dtype = b.scalar_type();
  const auto mu = momentum.mu.to(dtype);
  // In a skipped step g = b, which leaves b unchanged.
  const auto g = at::where(momentum.skip, b, gradient.to(dtype) * momentum.clip.to(dtype));
  b.lerp_(g, 1 - mu);
  return g.lerp(b, mu);
}

at::Tensor NorMuon::normalized(std::size_t bank, const at::Tensor& iterated,
                               const at::Tensor& skip) {
  const auto& q = second_momentum_[bank];
  const auto x = iterated.to(q.scalar_type());
  const auto mean = x.square().mean({averaged_dim(x)}, /*keepdim=*/true);
  q.lerp_(at::where(skip, q, mean), 1 - beta2_);
  const auto y = x * q.clamp_min(kLeast).rsqrt();
  return y * (norms(x) / norms(y).clamp_min(kLeast));
}

}  // namespace tg
