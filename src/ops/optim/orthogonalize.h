#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace tg {

// One Newton-Schulz iteration: X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ.
struct QuinticStep {
  double a, b, c;
};
// Returns Muon's coefficients (Jordan et al. 2024), `steps` times: singular values end between
// about 0.7 and 1.2.
std::vector<QuinticStep> muon_quintic(std::int64_t steps);
// Returns the first `steps` (at most five) iterations of Polar Express (Amsel et al. 2025): each is
// optimal for the range of singular values after the previous iterations.
std::vector<QuinticStep> polar_express(std::int64_t steps);

struct OrthogonalizeOptions {
  std::vector<QuinticStep> steps;
  bool normalize_rows = false;  // divides each row by max(its norm, 1e-7) beforehand
  // Rows and columns are zero-padded internally to this multiple; affects only the GEMMs' speed.
  std::int64_t multiple = 1;
  // The iterations start from X/(safety·‖X‖ + epsilon). Polar Express (Amsel et al. 2025) requires
  // safety > 1, since a singular value that rounding raised above 1 would grow.
  double safety = 1, epsilon = 1e-7;
};

// Approximates the nearest semi-orthogonal matrix, U·Vᵀ of X = U·S·Vᵀ, by Newton-Schulz iterations
// from X/(safety·‖X‖ + epsilon). If rows > columns it iterates on the transpose: X ← a·X + X·(b·A +
// c·A²) with A = Xᵀ·X. Each matrix of the batch [..., rows, columns] is processed separately, in
// x's dtype. The result is a view of the padded matrix, contiguous if nothing was padded.
at::Tensor orthogonalize(const at::Tensor& x, const OrthogonalizeOptions& options);

}  // namespace tg
