#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace tg {

// One Newton-Schulz iteration: X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ.
struct QuinticStep {
  double a, b, c;
};
// `steps` times Muon's own (Jordan et al. 2024): singular values end between about 0.7 and 1.2.
std::vector<QuinticStep> muon_quintic(std::int64_t steps);
// The first `steps` of Polar Express (Amsel et al. 2025), of which there are five: each is the best
// one for the singular values that those before it leave.
std::vector<QuinticStep> polar_express(std::int64_t steps);

struct OrthogonalizeOptions {
  std::vector<QuinticStep> steps;
  bool normalize_rows = false;  // divides each row by max(its norm, 1e-7) beforehand
  // Rows and columns are padded with zeros to multiples of it meanwhile, which changes nothing but
  // the GEMMs' speed.
  std::int64_t multiple = 1;
  // The iterations begin with X/(safety·‖X‖ + epsilon): Polar Express (Amsel et al. 2025) asks for
  // a factor above 1, since a singular value above 1 by rounding would grow.
  double safety = 1, epsilon = 1e-7;
};

// An approximation of the nearest semi-orthogonal matrix, U·Vᵀ of X = U·S·Vᵀ, by Newton-Schulz
// iterations from X/(safety·‖X‖ + epsilon); of the transpose where rows > columns, X ← a·X + X·(b·A
// + c·A²) with A = Xᵀ·X. Every matrix of the batch on its own, in x's dtype: [..., rows, columns].
// The result is a view of the padded one, contiguous where nothing is padded.
at::Tensor orthogonalize(const at::Tensor& x, const OrthogonalizeOptions& options);

}  // namespace tg
