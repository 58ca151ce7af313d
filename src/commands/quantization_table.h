#pragma once
#include <string>

#include "weights/tensors/named_tensors.h"

namespace tg {

// Returns a table of int6's cost: a line for each matrix, and for each matrix of a bank [n, rows,
// columns], with the root mean square of the error in % of the matrix's own, the fraction of
// clipped weights, and a bar of the error; "-" if the matrix is zero or not finite. With
// `artifact`, an artifact's dequantised tensors under the model's names: also the error of each
// there, "-" if it has none of this name and shape.
std::string quantization_text(const NamedTensors& tensors, const NamedTensors* artifact = nullptr);

}  // namespace tg
