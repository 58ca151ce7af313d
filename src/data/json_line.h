#pragma once
// One line of a .jsonl file: a JSON object whose member "text" is a document.
#include <cstdint>
#include <string>
#include <string_view>

namespace tg {

// A line's position, for messages.
struct LinePlace {
  const std::string& path;
  std::int64_t line;  // from 1
  std::int64_t byte;  // position of its first character in the file
};

// → the document. Errors: bad_data (no JSON object, or no string "text" in it).
std::string text_of_json_line(std::string_view line, const LinePlace& place);

}  // namespace tg
