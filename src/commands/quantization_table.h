#pragma once
#include <string>

#include "weights/named_tensors.h"

namespace tg {

// Describes the cost of int6: a line for each matrix, and for each of a bank [n, rows, columns],
// with the root mean square of its error in % of the matrix's own, the fraction of weights that are
// clipped, and a bar of the error; "-" if the matrix is zero or not finite. With `artifact`, an
// artifact's dequantised tensors under the model's names: also the error of each there, "-" if it
// has none of this name and shape.
std::string quantization_text(const NamedTensors& tensors, const NamedTensors* artifact = nullptr);

}  // namespace tg
