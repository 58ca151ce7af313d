#pragma once
// The known name that is nearest to a mistyped one.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Insertions, deletions, replacements and swaps of neighbours between two words.
int edit_distance(std::string_view a, std::string_view b);
// The first of the nearest; `names` must not be empty.
const std::string& nearest_name(std::string_view wrong, const std::vector<std::string>& names);

}  // namespace tg
