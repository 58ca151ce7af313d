#pragma once
#include <string>
#include <string_view>

namespace tg {

// Returns the pattern of a TOKENIZER_PATTERN in Oniguruma's syntax: that of its name (gpt2, cl100k,
// llama3, qwen2, o200k), else the text itself.
std::string word_pattern(std::string_view stated);

}  // namespace tg
