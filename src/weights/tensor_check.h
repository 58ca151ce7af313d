#pragma once
// Checks of tensors from files, for all readers: shapes whose products would overflow, bytes that
// are not bool, numbers that are not finite. And the text of such shapes and names (shown) in a
// message.
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/escaped.h"
#include "weights/named_tensors.h"

namespace tg {

// The limit of torch's own operations.
inline constexpr size_t kMaxDims = 64;

// The number of elements; nothing if a size is negative, if there are more than kMaxDims
// dimensions, or if the bytes (with sizes of 0 taken as 1, as torch does for strides) exceed 2^62.
std::optional<int64_t> checked_numel(c10::IntArrayRef sizes, size_t item_size);
// For a contiguous CPU bool tensor that was read from a file: using other values is undefined
// behaviour.
bool all_zero_or_one(const at::Tensor& bools);
// The name of the first tensor with an element that is not finite. Their devices are waited for
// once.
std::optional<std::string> first_nonfinite(const NamedTensors& tensors);

std::string shape_text(c10::IntArrayRef sizes);                 // [2, 3]
std::string names_text(const std::vector<std::string>& names);  // a, b, c, d, e, … and 2 more

}  // namespace tg
