#pragma once
#include <string>
#include <string_view>

namespace tg {

// Returns `text` with every `part`, which is not empty, replaced by `with`.
inline std::string replaced(std::string_view text, std::string_view part, std::string_view with) {
  std::string result;
  std::size_t begin = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, begin)) {
    result.append(text, begin, at - begin).append(with);
    begin = at + part.size();
  }
  return result.append(text, begin);
}

}  // namespace tg
