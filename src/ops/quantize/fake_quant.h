#pragma once
#include <ATen/ATen.h>

namespace tg {

// Six-bit rounding of a weight as the forward pass will see it after quantisation, with the
// gradient of the identity (straight through, Bengio et al. 2013). Each row (last dimension) has
// the scale s = max(max|row|/31, 1/31); w → s·clamp(round(w/s), low, 31), halves to even. low is
// −31 as the quantiser's; the reference implementation's training used −32. Any shape [..., rows,
// columns].
at::Tensor fake_quant(const at::Tensor& weight, double low);

}  // namespace tg
