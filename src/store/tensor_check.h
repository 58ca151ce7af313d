#pragma once
// What every reader of foreign tensors checks: shapes whose products would overflow, bytes that are
// no bool; and how names and shapes from such a file are shown in one line.
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// torch's own operations refuse more.
inline constexpr size_t kMaxDims = 64;

// The number of elements; nothing where a size is negative, where there are more than kMaxDims, or
// where the bytes (each zero taken as one, as torch does for strides) exceed 2^62.
std::optional<int64_t> checked_numel(c10::IntArrayRef sizes, size_t item_size);
// A contiguous CPU bool tensor read from bytes: values other than 0 and 1 are undefined behaviour
// later.
bool all_zero_or_one(const at::Tensor& bools);

std::string shape_text(c10::IntArrayRef sizes);  // [2, 3]
// Control characters escaped, at most `most` characters.
std::string shown(std::string_view name, size_t most = 100);

}  // namespace tg
