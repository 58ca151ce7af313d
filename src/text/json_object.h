#pragma once
// A JSON object, one member of which is a document: a line of a .jsonl file or an element of an
// array. Of the other members only the ends are found; what they hold (NaN, huge numbers,
// surrogates without a partner, bytes that are no UTF-8) is not judged.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/text_position.h"

namespace tg {

// Where an object begins, for messages.
struct JsonPlace {
  const std::string& path;
  TextPosition position;
  std::int64_t at = 0;  // bytes before it
};

// The string that `key` has in the object, without its quotes, as it is written there; of several
// the last one. Errors: bad_data (no object; no such member; no string).
std::string_view find_json_string(std::string_view object, std::string_view key,
                                  const JsonPlace& place);

struct JsonText {
  std::string text;
  std::optional<std::size_t> lone_surrogate;  // the first one's offset in `written`
};
// What a string means that find_json_string() found: an escaped surrogate without its partner is
// U+FFFD.
JsonText text_of_json_string(std::string_view written);

}  // namespace tg
