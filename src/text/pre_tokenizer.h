#pragma once
#include <cstddef>
#include <functional>
#include <string_view>

namespace tg {

// GPT-2's cut of a text into words, which no merge crosses: English contractions, runs of letters,
// of digits and of other characters, each with one space before it, and runs of white space, of
// which the last space goes to the word behind it. Letters and digits are Unicode's categories L
// and N. A byte that is no UTF-8 is a word of its own. Together the words are the text.
void for_each_word(std::string_view text, const std::function<void(std::string_view)>& on_word);

}  // namespace tg
