#pragma once
// The published test files of two tasks, JSON lines.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tg {

// HellaSwag (Zellers et al. 2019): which of four endings continues a text.
struct HellaSwagExample {
  std::int64_t line = 0;  // of the file, from 1
  std::string context;
  std::array<std::string, 4> endings;  // without the space before them
  std::size_t label = 0;               // of the right ending
};
// Returns "ctx", "endings" and "label" (a number or its text) of each line; other keys are ignored.
// Throws Error: missing_input; bad_data for a line without them (file, line and what was found) or
// no line at all; io.
std::vector<HellaSwagExample> read_hellaswag(const std::string& path);

// LAMBADA (Paperno et al. 2016), as OpenAI processed it: the last word of a text.
struct LambadaExample {
  std::int64_t line = 0;
  std::string context;  // up to the last space
  std::string target;   // that space and the word
};
// Returns "text" of each line. Throws as read_hellaswag does; bad_data also for a text without a
// last word.
std::vector<LambadaExample> read_lambada(const std::string& path);

}  // namespace tg
