#pragma once
#include <ATen/ATen.h>

namespace tg {

// Fake int6 quantization of a weight with a straight-through gradient (Bengio et al. 2013). Each
// row (last dimension) has the scale s = max(max|row|/31, 1/31); w → s·clamp(round(w/s), low, 31),
// rounding half to even. `low` is −31 in the quantizer; the reference implementation's training
// used −32. Any shape [..., rows, columns].
at::Tensor fake_quant(const at::Tensor& weight, double low);

}  // namespace tg
