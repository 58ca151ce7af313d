#include "files/file_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "files/byte_source.h"
#include "files/json_fields.h"
#include "files/xxh3.h"

namespace tg {
namespace {

std::optional<std::uint64_t> from_hex(std::string_view digits) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
  if (digits.size() != 16 || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

FileDigest digest_of(const std::string& path) {
  const FileSource file(path);
  Xxh3 xxh3;
  std::vector<char> part(std::min<std::uint64_t>(file.size(), 1 << 22));
  for (std::uint64_t at = 0; at < file.size(); at += part.size()) {
    part.resize(std::min<std::uint64_t>(part.size(), file.size() - at));
    file.read(at, part.data(), part.size());
    xxh3.add(part.data(), part.size());
    report_progress(static_cast<std::int64_t>(part.size()));
  }
  return {file.size(), xxh3.value()};
}

nlohmann::json digest_json(const FileDigest& digest) {
  return {{"bytes", digest.bytes}, {"xxh3", fmt::format("{:016x}", digest.xxh3)}};
}

FileDigest digest_of_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  const auto bytes = static_cast<std::uint64_t>(fields.count("bytes"));
  const auto xxh3 = from_hex(fields.text("xxh3"));
  fields.require(xxh3.has_value(), "xxh3", "16 hexadecimal digits");
  return {bytes, *xxh3};
}

}  // namespace tg
