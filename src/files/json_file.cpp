#include "files/json_file.h"

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/byte_source.h"

namespace tg {

using nlohmann::json;

std::optional<json> parse_json(std::string_view text, int max_depth) {
  bool too_deep = false;
  const auto check_depth = [&](int depth, json::parse_event_t, json&) {
    too_deep |= depth > max_depth;
    return !too_deep;
  };
  auto value = json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (too_deep) return std::nullopt;
  return value;
}

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

json read_json_file(const std::string& path, std::uint64_t max_bytes) {
  const FileSource source(path);
  REQUIRE(source.size() <= max_bytes, ExitCode::bad_data, "{}: expected at most {} bytes, found {}",
          path, max_bytes, source.size());
  auto value = parse_json(source.read(0, source.size()));
  REQUIRE(value, ExitCode::bad_data, "{}: expected JSON nested {} deep, found more", path,
          kMaxJsonDepth);
  REQUIRE(!value->is_discarded(), ExitCode::bad_data, "{}: expected JSON, found something else",
          path);
  return *std::move(value);
}

void write_json_file(const std::string& path, const json& value) {
  write_file_atomically(path, json_text(value, 2) + "\n");
}

}  // namespace tg
