#include "files/file_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/progress.h"
#include "base/strings.h"
#include "files/byte_source.h"
#include "files/json_fields.h"
#include "files/xxh3.h"

namespace tg {

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
  const auto digits = fields.text("xxh3");
  const auto xxh3 = parse_number<std::uint64_t>(digits, 16);
  fields.require(digits.size() == 16 && xxh3, "xxh3", "16 hexadecimal digits");
  return {bytes, *xxh3};
}

}  // namespace tg
