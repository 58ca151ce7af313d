#pragma once
// Rows of the parameter table that equal another row until they are untied (Update::tied_to), such
// as an embedding table [V, D] and a head [V, D] or [D, V] (record 89 of the GPT-124M speedrun,
// 2026-08-01). The other row is updated, by the sum of both gradients.
#include <ATen/ATen.h>

#include <vector>

#include "model/parameters.h"

namespace tg {

// Both have equal shapes, or one has the transposed shape of the other.
struct TiedRow {
  const Parameter *row, *to;
};
// The table's tied rows; it must outlive them.
std::vector<TiedRow> tied_rows(const ParameterTable& table);

// Returns a tensor that is shaped like one row as the other row, of shape `sizes`, has it.
at::Tensor as_tied(const at::Tensor& tensor, at::IntArrayRef sizes);

// Sets each row to the row that it is tied to.
void copy_tied_values(const std::vector<TiedRow>& rows);
// Adds the gradient of each row to the gradient of the row that it is tied to.
void add_tied_gradients(const std::vector<TiedRow>& rows);
// Returns whether the row equals the row that it is tied to, in the dtype with fewer bits.
bool is_equal(const TiedRow& tied);

}  // namespace tg
