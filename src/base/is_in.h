#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace tg {

template <std::size_t n>
bool is_in(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace tg
