#pragma once
#include <algorithm>

namespace tg {

template <class Range, class Value>
bool is_in(const Range& values, const Value& value) {
  return std::ranges::find(values, value) != std::ranges::end(values);
}

}  // namespace tg
