#pragma once
#include <algorithm>

namespace tg {

bool is_in(const auto& values, const auto& value) {
  return std::ranges::find(values, value) != std::ranges::end(values);
}

}  // namespace tg
