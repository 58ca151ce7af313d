#pragma once
#include <string>
#include <vector>

#include "weights/named_tensors.h"

namespace tg {

// Rows of equally many cells as columns: the first `left` to the left, the others, numbers, to the
// right.
std::string table_text(const std::vector<std::vector<std::string>>& rows, size_t left);
// A line for each tensor, below a header: name, dtype (as safetensors calls it), shape, elements,
// bytes, and minimum, maximum and root mean square of its finite elements ("-" if it has none). A
// last column counts the elements that are not finite, if any tensor has such.
std::string tensors_text(const NamedTensors& tensors);
// Tensors, elements and bytes of each dtype and of all.
std::string totals_text(const NamedTensors& tensors);

}  // namespace tg
