#include "weights/tensors/tensor_check.h"

#include <ATen/ATen.h>
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

std::optional<std::string> first_nonfinite(const NamedTensors& tensors) {
  std::vector<at::Tensor> finite;
  std::vector<const std::string*> names;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;  // aminmax needs an element
    // Minimum and maximum are NaN if an element is; unlike isfinite(), aminmax allocates no tensor
    // of the input's size.
    const auto [least, greatest] = at::aminmax(tensor.detach());
    finite.push_back(least.isfinite() & greatest.isfinite());
    names.push_back(&name);
  }
  if (finite.empty()) return std::nullopt;
  // Several devices are possible, such as a partly offloaded state: one copy, and so one wait.
  for (auto& flag : finite) flag = flag.to(finite.back().device());
  const auto all = at::stack(finite).cpu();
  for (size_t i = 0; i < names.size(); ++i)
    if (!all.const_data_ptr<bool>()[i]) return *names[i];
  return std::nullopt;
}

std::string names_text(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 5;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMaxNames));
  const auto first = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  return names.size() <= kMaxNames
             ? first
             : fmt::format("{}, … and {} more", first, names.size() - kMaxNames);
}

std::string shape_text(c10::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

}  // namespace tg
