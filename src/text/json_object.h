#pragma once
// JSON object, one member of which is a document: a line of a .jsonl file or an element of an
// array. The other members are only skipped: their contents (NaN, huge numbers, lone surrogates,
// invalid UTF-8) are not checked.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/text_lines.h"

namespace tg {

// Position of an object, for messages.
struct JsonPlace {
  const std::string& path;
  TextPosition position;
  std::int64_t at = 0;  // its byte offset
};

// Returns the raw string value of `key` in the object, without quotes, escapes not decoded; the
// last one if the key repeats. Throws Error(bad_data) if there is no object, no such member or no
// string.
std::string_view find_json_string(std::string_view object, std::string_view key,
                                  const JsonPlace& place);

struct JsonText {
  std::string text;
  std::optional<std::size_t> lone_surrogate;  // the first lone surrogate's offset in `written`
};
// Decodes a string that find_json_string() returned; an escaped lone surrogate becomes U+FFFD.
JsonText text_of_json_string(std::string_view written);

}  // namespace tg
