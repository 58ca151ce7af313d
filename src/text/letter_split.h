#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tg {

// Splits a text into parts of `size` bytes or slightly more. Each cut is between two letters,
// digits or marks of frequent scripts that no rule of Unicode's NFKC joins, so that the
// concatenated normalizations of the parts are the normalization of the text. No cut is inside an
// occurrence of a string of `whole`.
std::vector<std::string_view> split_between_letters(std::string_view text, std::size_t size,
                                                    const std::vector<std::string>& whole);

}  // namespace tg
