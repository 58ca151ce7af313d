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

}  // namespace tg
