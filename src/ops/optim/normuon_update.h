#pragma once
#include <ATen/ATen.h>

namespace tg {

// NorMuon's part after the orthogonalisation, as in the speedrun's record 43 (Li et al. 2025). x is
// [n, rows, columns]; q is the running mean of x² over the rows, [n, 1, columns], or over the
// columns, [n, rows, 1]:
//   q ← q + (1 − β2)·(mean x² − q) in place, unless `skip` ([] bool);  y = x/√max(q, 1e-10)
// Returns y·‖x‖/max(‖y‖, 1e-10), with the norms of each matrix, in x's dtype. Computed in q's
// dtype, fp32 (fp64 for fp64).
at::Tensor normalized_variance(const at::Tensor& x, const at::Tensor& q, double beta2,
                               const at::Tensor& skip);

}  // namespace tg
