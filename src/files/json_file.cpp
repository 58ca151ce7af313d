#include "files/json_file.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/byte_source.h"

namespace tg {

using nlohmann::json;

namespace {

std::string escaped(const json& value) {
  auto text = value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
  if (text.size() > 100) text.replace(100, text.npos, "...");
  return text;
}

bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 255 && name[0] != '.' && std::ranges::all_of(name, plain);
}

}  // namespace

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

JsonFields::JsonFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  REQUIRE(object_.is_object(), ExitCode::bad_data, "{}: expected a JSON object, found {}", where_,
          escaped(object_));
}

const json& JsonFields::get(const std::string& name) const {
  const auto found = object_.find(name);
  REQUIRE(found != object_.end(), ExitCode::bad_data, "{}: expected a field \"{}\", found none",
          where_, name);
  return *found;
}

std::int64_t JsonFields::count(const std::string& name) const {
  constexpr std::uint64_t max = std::numeric_limits<std::int64_t>::max();
  const json& value = get(name);
  require(value.is_number_unsigned() && value.get<std::uint64_t>() <= max, name,
          "a count below 2^63");
  return value.get<std::int64_t>();
}

double JsonFields::number(const std::string& name) const {
  require(get(name).is_number(), name, "a number");
  return get(name).get<double>();
}

std::string JsonFields::text(const std::string& name) const {
  require(get(name).is_string(), name, "a string");
  return get(name).get<std::string>();
}

std::string JsonFields::file_name(const std::string& name) const {
  auto text = this->text(name);
  require(is_plain_name(text), name, "a plain file name");
  return text;
}

void JsonFields::require(bool good, const std::string& name, std::string_view expected) const {
  REQUIRE(good, ExitCode::bad_data, "{}: {}: expected {}, found {}", where_, escaped(name),
          expected, escaped(get(name)));
}

}  // namespace tg
