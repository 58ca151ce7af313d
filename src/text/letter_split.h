#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Splits a text into parts of `size` bytes or little more, each cut between two letters, digits or
// marks of frequent scripts that no rule of Unicode's NFKC joins: so their normalised texts joined
// are the normalised text. No cut is inside one of `whole`.
std::vector<std::string_view> split_between_letters(std::string_view text, std::size_t size,
                                                    const std::vector<std::string>& whole);

}  // namespace tg
