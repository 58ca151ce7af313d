#pragma once
#include <ATen/ATen.h>

namespace tg {

// The elementwise parts of Muon (Jordan et al. 2024), before and after the orthogonalisation.
// μ, c and rate are scalars on the device, [] fp32.

// Nesterov momentum, where `skip` [] bool is false: b ← μ·b + c·g, result μ·b + c·g of the new b;
// where it is true, b is unchanged and the result is b, whatever g is. b (in place) and the result
// have b's dtype, g any and any layout; computed in fp32 (fp64 for fp64).
at::Tensor nesterov_momentum(const at::Tensor& b, const at::Tensor& g, const at::Tensor& mu,
                             const at::Tensor& c, const at::Tensor& skip);

// p ← p·(1 − rate·decay) − rate·scale·u, in place; u of p's shape, in any dtype and layout.
void decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate, double decay,
                  double scale);

// decayed_step() with cautious weight decay, which goes by the squared rate and only where u does
// not work against it: p ← p − rate·scale·v, v = u + rate·decay·p where u·p ≥ 0, else u. Computed
// in p's dtype.
void cautiously_decayed_step(const at::Tensor& p, const at::Tensor& u, const at::Tensor& rate,
                             double decay, double scale);

}  // namespace tg
