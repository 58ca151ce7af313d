#pragma once
#include <ATen/ATen.h>

namespace tg {

struct AdamStep {
  double lr, weight_decay, beta1, beta2, epsilon;
  bool cautious;        // decays by lr²·weight_decay, where the update shrinks the weight
  at::Tensor lr_scale;  // [] fp32, multiplies lr
  at::Tensor skip;      // [] fp32, 1: changes nothing, whatever g is; else 0
};

// Adam (Kingma and Ba 2015) in the form at the end of its section 2, where ε is not scaled by the
// bias correction. Updates p and the moments in place; t [] fp32 counts updates, this one included:
//   m ← β1·m + (1 − β1)·g;  v ← β2·v + (1 − β2)·g²
//   p ← p·(1 − lr·weight_decay) − u with u = lr·√(1 − β2^t)/(1 − β1^t)·m/(√v + ε)
// cautious, as in the speedrun's record of 2026-08-01:
//   p ← p − u − lr²·weight_decay·p where u·p > 0, else p − u
// p and g have any dtype; m and v are fp32 (fp64 for fp64).
void adam_update(const at::Tensor& p, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
                 const at::Tensor& t, const AdamStep& step);

}  // namespace tg
