#pragma once
#include <ATen/ATen.h>

namespace tg {

struct AdamOptions {
  double lr;            // base rate, times lr_scale
  double weight_decay;  // decoupled
  double beta1, beta2, epsilon;
  bool cautious =
      false;  // decays by lr²·weight_decay, and only where the update shrinks the weight
};

// Adam (Kingma and Ba 2015) in the form at the end of its section 2, where ε is not scaled by the
// bias correction. Updates p and the moments in place; t [] fp32 counts updates, this one included:
//   m ← β1·m + (1 − β1)·g;  v ← β2·v + (1 − β2)·g²
//   p ← p·(1 − lr·weight_decay) − u with u = lr·√(1 − β2^t)/(1 − β1^t)·m/(√v + ε)
// cautious, as in the speedrun's record of 2026-08-01:
//   p ← p − u − lr²·weight_decay·p where u·p > 0, else p − u
// lr_scale [] fp32 multiplies lr. skip [] fp32 is 1 if the step changes nothing, whatever g is,
// else 0. p and g have any dtype; m and v are fp32 (fp64 for fp64).
void adam_update(const at::Tensor& p, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
                 const at::Tensor& t, const AdamOptions& options, const at::Tensor& lr_scale,
                 const at::Tensor& skip);

}  // namespace tg
