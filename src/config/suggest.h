#pragma once
// Suggestions for unknown names.
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Returns the Damerau-Levenshtein distance of two words: insertions, deletions, replacements and
// swaps of neighbours.
int edit_distance(std::string_view a, std::string_view b);
// Returns the first of the nearest names. Precondition: `names` is not empty.
const std::string& nearest_name(std::string_view wrong, const std::vector<std::string>& names);

// Returns the settings that an unknown flag or variable probably means: settings that other
// trainers call so ("lr", "batch_size"), the `members` that contain all of its words, or the
// nearest member. Empty: nothing is near. Names have a member's form, "matrix_lr". Precondition:
// `members` is not empty.
std::vector<std::string> meant_settings(std::string_view wrong,
                                        const std::vector<std::string>& members);

}  // namespace tg
