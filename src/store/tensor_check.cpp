#include "store/tensor_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tg {

std::optional<int64_t> checked_numel(c10::IntArrayRef sizes, size_t item_size) {
  constexpr int64_t max_bytes = int64_t{1} << 62;
  if (sizes.size() > kMaxDims) return std::nullopt;
  auto bytes = static_cast<int64_t>(item_size);
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    empty |= size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes) || bytes > max_bytes)
      return std::nullopt;
  }
  return empty ? 0 : bytes / static_cast<int64_t>(item_size);
}

bool all_zero_or_one(const at::Tensor& bools) {
  const auto* bytes = static_cast<const uint8_t*>(bools.const_data_ptr());
  return std::all_of(bytes, bytes + bools.nbytes(), [](uint8_t byte) { return byte <= 1; });
}

std::string shape_text(c10::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

}  // namespace tg
