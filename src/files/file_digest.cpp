#include "files/file_digest.h"

#include <algorithm>
#include <vector>

#include "base/progress.h"
#include "base/strings.h"
#include "files/byte_source.h"
#include "files/json_file.h"

namespace tg {
namespace {

// Checkpoints store such digests: changing these constants would invalidate them.
constexpr std::int64_t block_bytes = 16 << 10;
constexpr std::int64_t max_blocks = 8;

std::vector<std::int64_t> block_offsets(std::int64_t size) {
  std::vector<std::int64_t> offsets;
  if (size <= max_blocks * block_bytes) {
    for (std::int64_t at = 0; at < size; at += block_bytes) offsets.push_back(at);
  } else {
    for (std::int64_t i = 0; i < max_blocks; ++i)
      offsets.push_back(i * (size - block_bytes) / (max_blocks - 1));
  }
  return offsets;
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
  const auto digits = fields.text("xxh3");
  const auto xxh3 = parse_number<std::uint64_t>(digits, 16);
  fields.require(digits.size() == 16 && xxh3, "xxh3", "16 hexadecimal digits");
  return {bytes, *xxh3};
}

void SampledDigest::add(const File& file) {
  const std::int64_t size = file.size();
  xxh3_.add(&size, sizeof size);
  const auto offsets = block_offsets(size);
  for (const auto at : offsets) file.prefetch(at, block_bytes);  // wait once for all
  std::vector<std::byte> block(block_bytes);
  for (const auto at : offsets)
    xxh3_.add(block.data(), static_cast<std::size_t>(file.read_at(at, block)));
}

}  // namespace tg
