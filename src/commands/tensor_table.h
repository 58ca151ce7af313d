#pragma once
#include <string>
#include <vector>

#include "weights/tensors/named_tensors.h"

namespace tg {

// Returns rows of equally many cells in columns: the first `left` aligned left, the others,
// numbers, aligned right.
std::string table_text(const std::vector<std::vector<std::string>>& rows, size_t left);
// Returns a header and a line for each tensor: name, dtype (safetensors' name), shape, elements,
// bytes, and minimum, maximum and root mean square of its finite elements ("-" if it has none). If
// any tensor has non-finite elements, a last column counts them.
std::string tensors_text(const NamedTensors& tensors);
// Returns a table of the number of tensors, elements and bytes by dtype and in total.
std::string totals_text(const NamedTensors& tensors);

// Returns a table of int6's cost: a line for each matrix, and for each matrix of a bank [n, rows,
// columns], with the root mean square of the error in % of the matrix's own, the fraction of
// clipped weights, and a bar of the error; "-" if the matrix is zero or not finite. With
// `artifact`, an artifact's dequantised tensors under the model's names: also the error of each
// there, "-" if it has none of this name and shape.
std::string quantization_text(const NamedTensors& tensors, const NamedTensors* artifact = nullptr);

}  // namespace tg
