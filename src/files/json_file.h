#pragma once
// JSON files, small ones as a whole.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// Levels of arrays and objects in a file from outside: an array in memory takes 100 times the bytes
// of its brackets.
inline constexpr int kMaxJsonDepth = 4;

// `discarded` where the text is no JSON; nothing where it is nested deeper than kMaxJsonDepth.
std::optional<nlohmann::json> parse_json(std::string_view text);

// Bytes that are not UTF-8 (a path in the settings) become U+FFFD instead of an exception. `indent`
// of -1: one line.
std::string json_text(const nlohmann::json& value, int indent);

// At most 1 MiB. Errors: missing_input, io, bad_data.
nlohmann::json read_json_file(const std::string& path);

// Indented, with a final newline, through AtomicFile. Errors: cannot_create, io.
void write_json_file(const std::string& path, const nlohmann::json& value);

}  // namespace tg
