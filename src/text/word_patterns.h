#pragma once
#include <string>
#include <string_view>

namespace tg {

// Returns a TOKENIZER_PATTERN as a pattern in Oniguruma's syntax: a name (gpt2, cl100k, llama3,
// qwen2, o200k) stands for a pattern, any other text is one.
std::string word_pattern(std::string_view stated);

}  // namespace tg
