#pragma once
#include <string>

#include "weights/named_tensors.h"

namespace tg {

// What int6 would cost: a line for each matrix, and for each of a bank [n, rows, columns], with the
// root mean square of its error in % of the matrix's own, the share of weights that are clipped,
// and a bar of the error. "-" where the matrix is zero or not finite. With the tensors that an
// artifact of the model holds, dequantised, under the same names: also the error of each there, "-"
// where it has none of this name and shape.
std::string quantization_text(const NamedTensors& tensors, const NamedTensors* artifact = nullptr);

}  // namespace tg
