#pragma once
// Checks of tensors from files, for all readers: shapes whose number of bytes overflows, bool bytes
// other than 0 and 1, non-finite numbers. Also formats shapes and lists of names for messages.
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/escaped.h"
#include "weights/tensors/named_tensors.h"

namespace tg {

// Limit of torch's own operations.
inline constexpr size_t kMaxDims = 64;

// Returns the number of elements; nullopt if a size is negative, if there are more than kMaxDims
// dimensions, or if the bytes (with sizes of 0 taken as 1, as torch does for strides) exceed 2^62.
std::optional<int64_t> checked_numel(c10::IntArrayRef sizes, size_t item_size);
// Checks a contiguous CPU bool tensor that was read from a file: using other values is undefined
// behavior.
bool all_zero_or_one(const at::Tensor& bools);
// Returns the name of the first tensor with a non-finite element. Synchronizes once with the
// tensors' devices.
std::optional<std::string> first_nonfinite(const NamedTensors& tensors);

std::string shape_text(c10::IntArrayRef sizes);                 // [2, 3]
std::string names_text(const std::vector<std::string>& names);  // a, b, c, d, e, … and 2 more

}  // namespace tg
