#pragma once
// JSON files; small ones are read as a whole.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace tg {

// Maximum nesting in a file from outside: in memory an array takes 100 times the bytes of its
// brackets.
inline constexpr int kMaxJsonDepth = 4;

// Returns `discarded` if the text is not JSON, and nullopt if it is nested deeper than `max_depth`.
std::optional<nlohmann::json> parse_json(std::string_view text, int max_depth = kMaxJsonDepth);

// Serializes with U+FFFD for bytes that are not UTF-8 (a path in the settings) instead of an
// exception. `indent` of -1: one line.
std::string json_text(const nlohmann::json& value, int indent);

// Reads at most max_bytes. Throws Error(missing_input), Error(io) and Error(bad_data).
nlohmann::json read_json_file(const std::string& path, std::uint64_t max_bytes = 1 << 20);

// Writes indented JSON and a final newline through AtomicFile. Throws Error(cannot_create) and
// Error(io).
void write_json_file(const std::string& path, const nlohmann::json& value);

}  // namespace tg
