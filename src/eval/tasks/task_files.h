#pragma once
// Readers of the published test files of two tasks, in JSON lines.
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
  std::size_t label = 0;               // index of the right ending
};
// Reads "ctx", "endings" and "label" (a number or its text) of each line, and ignores other
// members. Throws ExitCode::missing_input; bad_data for a line without them (file, line and what
// was found) or a file without lines; io.
std::vector<HellaSwagExample> read_hellaswag(const std::string& path);

// LAMBADA (Paperno et al. 2016), as OpenAI processed it: the last word of a text.
struct LambadaExample {
  std::int64_t line = 0;
  std::string context;  // up to the last space
  std::string target;   // that space and the word
};
// Reads "text" of each line. Throws as read_hellaswag(); bad_data also for a text without a last
// word.
std::vector<LambadaExample> read_lambada(const std::string& path);

}  // namespace tg
