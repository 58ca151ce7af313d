#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace tg {

// An approximation of the nearest semi-orthogonal matrix, U·Vᵀ of X = U·S·Vᵀ, by `steps` of the
// quintic iteration X ← a·X + (b·A + c·A²)·X, A = X·Xᵀ, with (a, b, c) = (3.4445, −4.7750, 2.0315),
// from X/(‖X‖ + 1e-7); of the transpose where rows > columns, X ← a·X + X·(b·A + c·A²) with
// A = Xᵀ·X (Jordan et al. 2024, Muon). Singular values end between about 0.7 and 1.2. Every matrix
// of the batch on its own, in x's dtype: [..., rows, columns]. Rows and columns are padded with
// zeros to multiples of `multiple` meanwhile, which changes nothing but the GEMMs' speed; the
// result is a view of the padded one, contiguous where nothing is padded.
at::Tensor newton_schulz(const at::Tensor& x, std::int64_t steps, std::int64_t multiple = 1);

}  // namespace tg
