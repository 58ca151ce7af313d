#pragma once
// JSON files, small ones as a whole, and the fields of their objects.
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

// Checked access to the fields of a JSON object. Throws Error(bad_data) with the prefix `where`.
class JsonFields {
 public:
  // Keeps a reference to the object.
  JsonFields(const nlohmann::json& object, std::string where);

  const nlohmann::json& get(const std::string& name) const;
  std::int64_t count(const std::string& name) const;  // 0 to 2^63 - 1
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  // Reads the name of a file in the same folder: letters, digits and "._-" only, so that it cannot
  // leave the folder.
  std::string file_name(const std::string& name) const;
  // Checks what the type alone does not say: throws, with the expected and the found value, unless
  // `good`.
  void require(bool good, const std::string& name, std::string_view expected) const;

 private:
  const nlohmann::json& object_;
  const std::string where_;
};

}  // namespace tg
