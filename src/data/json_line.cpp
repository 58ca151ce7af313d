#include "data/json_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace tg {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const LinePlace& place, std::int64_t byte, const std::string& found) {
  fail(ExitCode::bad_data,
       "{} line {} holds no document at byte {} (expected a JSON object with a string \"text\", "
       "found {}); every line of a .jsonl file must be such an object",
       place.path, place.line, byte, found);
}

json parse(std::string_view line, const LinePlace& place) {
  try {
    return json::parse(line);
  } catch (const json::parse_error& error) {
    // error.byte is the last character read, counted from 1, and may be past the end.
    const auto last = std::clamp<std::size_t>(error.byte, 1, line.size());
    refuse(place, place.byte + static_cast<std::int64_t>(last) - 1, "no JSON");
  } catch (const json::out_of_range&) {
    refuse(place, place.byte, "a number beyond the range of a double");
  }
}

}  // namespace

std::string text_of_json_line(std::string_view line, const LinePlace& place) {
  json value = parse(line, place);
  if (!value.is_object()) refuse(place, place.byte, fmt::format("JSON {}", value.type_name()));
  const auto text = value.find("text");
  if (text == value.end()) refuse(place, place.byte, "an object without \"text\"");
  if (!text->is_string()) {
    refuse(place, place.byte, fmt::format("a \"text\" that is {}", text->type_name()));
  }
  return std::move(text->get_ref<std::string&>());
}

}  // namespace tg
