#pragma once
// What the user may have meant by a name that is not known.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Insertions, deletions, replacements and swaps of neighbours between two words.
int edit_distance(std::string_view a, std::string_view b);
// The first of the nearest; `names` must not be empty.
const std::string& nearest_name(std::string_view wrong, const std::vector<std::string>& names);

// The settings that are probably meant by the name of a flag or variable: those that other trainers
// call so ("lr", "batch_size"), those of `members` that have all of its words, or the nearest one.
// Empty: nothing is near. Names as of members, "matrix_lr"; `members` must not be empty.
std::vector<std::string> meant_settings(std::string_view wrong,
                                        const std::vector<std::string>& members);

}  // namespace tg
