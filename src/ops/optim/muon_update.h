#pragma once
#include <ATen/ATen.h>

namespace tg {

// The elementwise parts of Muon (Jordan et al. 2024), before and after the orthogonalisation.
// μ, c and rate are scalars on the device, [] fp32.

// Nesterov momentum: b ← μ·b + c·g in place, then returns μ·b + c·g with the new b. If `skip` ([]
// bool) is true, b is unchanged and returned, whatever g is. The result has b's dtype; g may have
// any dtype and layout. Computed in fp32 (fp64 for fp64).
at::Tensor nesterov_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip);

// Momentum as an average, as in NorMuon: b ← b + (1 − μ)·(c·g − b) in place, then returns c·g +
// μ·(b − c·g) with the new b, in `dtype`. If `skip` is true, b is unchanged and returned. Computed
// in b's dtype.
at::Tensor averaged_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip, at::ScalarType dtype);

// Updates in place: p ← p·(1 − rate·decay) − rate·scale·u. u has p's shape, any dtype and layout.
void decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate, double decay,
                  double scale);

// decayed_step() with cautious weight decay, which is proportional to the squared rate and applied
// only where u and p agree in sign: p ← p − rate·scale·v, v = u + rate·decay·p where u·p ≥ 0, else
// u. Computed in p's dtype.
void cautiously_decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate,
                             double decay, double scale);

}  // namespace tg
