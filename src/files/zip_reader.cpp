#include "files/zip_reader.h"

#include "base/error.h"
#include "base/escaped.h"
#include "files/crc32.h"
#include "files/little_endian.h"

namespace tg {
namespace {

constexpr uint64_t kMaxDirectory = 64 << 20;  // about 700,000 records
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20, kLocalSize = 30,
                   kEntrySize = 46;

// Replaces fields with all bits set by their values in the zip64 extra field, which holds only
// those, in this order. Returns false if one is missing.
bool widen(std::string_view extra, uint64_t& size, uint64_t& packed, uint64_t& offset) {
  while (extra.size() >= 4) {
    const auto id = number_at<uint16_t>(extra);
    const size_t length = number_at<uint16_t>(extra, 2);
    if (length > extra.size() - 4) return false;
    std::string_view field = extra.substr(4, length);
    extra.remove_prefix(4 + length);
    if (id != 1) continue;
    for (uint64_t* value : {&size, &packed, &offset}) {
      if (*value != 0xffffffff) continue;
      if (field.size() < 8) return false;
      *value = number_at<uint64_t>(field);
      field.remove_prefix(8);
    }
  }
  return size != 0xffffffff && packed != 0xffffffff && offset != 0xffffffff;
}

}  // namespace

void ZipReader::bad(std::string_view what) const {
  fail(ExitCode::bad_data, "{}: expected an archive of torch.save; {}", source_.name(), what);
}

ZipReader::Directory ZipReader::find_directory() const {
  if (source_.size() < kEndSize) bad("too short");
  const uint64_t end_at = source_.size() - kEndSize;
  const std::string end = source_.read(end_at, kEndSize);
  if (!end.starts_with("PK\5\6")) bad("its end is missing (truncated, or bytes appended)");
  Directory directory{number_at<uint32_t>(end, 16), number_at<uint32_t>(end, 12),
                      number_at<uint16_t>(end, 10)};
  uint64_t limit = end_at;
  if (end_at >= kLocatorSize) {
    const std::string locator = source_.read(end_at - kLocatorSize, kLocatorSize);
    if (locator.starts_with("PK\6\7")) {
      const auto end64_at = number_at<uint64_t>(locator, 8);
      if (!source_.holds(end64_at, kEnd64Size)) bad("its zip64 directory is out of range");
      const std::string end64 = source_.read(end64_at, kEnd64Size);
      if (!end64.starts_with("PK\6\6")) bad("its zip64 directory is missing");
      directory = {number_at<uint64_t>(end64, 48), number_at<uint64_t>(end64, 40),
                   number_at<uint64_t>(end64, 32)};
      limit = end64_at;
    }
  }
  if (directory.size > limit || directory.offset > limit - directory.size)
    bad("its directory is out of range");
  if (directory.size > kMaxDirectory) bad("its directory is larger than 64 MiB");
  return directory;
}

ZipReader::ZipReader(const ByteSource& source) : source_(source) {
  const Directory directory = find_directory();
  const std::string bytes = source_.read(directory.offset, directory.size);
  std::string_view rest = bytes;
  uint64_t total = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kEntrySize || !rest.starts_with("PK\1\2")) bad("its directory is broken");
    const auto flags = number_at<uint16_t>(rest, 8), method = number_at<uint16_t>(rest, 10);
    uint64_t packed = number_at<uint32_t>(rest, 20), size = number_at<uint32_t>(rest, 24);
    uint64_t local = number_at<uint32_t>(rest, 42);
    const size_t name_size = number_at<uint16_t>(rest, 28),
                 extra_size = number_at<uint16_t>(rest, 30);
    const size_t comment_size = number_at<uint16_t>(rest, 32);
    const uint32_t crc = number_at<uint32_t>(rest, 16);
    rest.remove_prefix(kEntrySize);
    if (name_size + extra_size + comment_size > rest.size()) bad("its directory is broken");
    const std::string_view name = rest.substr(0, name_size);
    if (!widen(rest.substr(name_size, extra_size), size, packed, local))
      bad("a zip64 size is missing");
    rest.remove_prefix(name_size + extra_size + comment_size);

    const std::string where = "record '" + escaped(name) + "'";
    if (flags & 1) bad(where + " is encrypted");
    if (method != 0 || packed != size) bad(where + " is compressed, expected stored");
    const uint64_t offset = data_offset(local, name);
    // Overlapping records would let a small file claim much memory: the sum of their sizes must fit
    // in the file.
    if (size > directory.offset || offset > directory.offset - size ||
        (total += size) > source_.size())
      bad(fmt::format("{} claims {} bytes at {} of a file of {}", where, size, offset,
                      source_.size()));
    const size_t slash = name.find('/');
    if (slash == std::string_view::npos) bad(where + " is in no folder");
    if (i == 0) folder_ = name.substr(0, slash);
    if (name.substr(0, slash) != folder_) bad(where + " is outside '" + escaped(folder_) + "'");
    if (!records_.emplace(name.substr(slash + 1), ZipRecord{offset, size, crc}).second)
      bad(where + " appears twice");
  }
  if (!rest.empty()) bad("its directory is longer than its records");
}

uint64_t ZipReader::data_offset(uint64_t local_header, std::string_view name) const {
  if (!source_.holds(local_header, kLocalSize + name.size()))
    bad("a record's header is out of range");
  const std::string header = source_.read(local_header, kLocalSize + name.size());
  if (!header.starts_with("PK\3\4") || number_at<uint16_t>(header, 26) != name.size() ||
      header.substr(kLocalSize) != name)
    bad("the header of '" + escaped(name) + "' is not where the directory says");
  return local_header + kLocalSize + name.size() + number_at<uint16_t>(header, 28);
}

const ZipRecord* ZipReader::find(const std::string& name) const {
  const auto found = records_.find(name);
  return found == records_.end() ? nullptr : &found->second;
}

void ZipReader::read(const ZipRecord& record, void* to) const {
  source_.read(record.offset, to, record.size);
  // torch.serialization.set_crc32_options(False) writes zeros.
  if (record.crc != 0 && crc32(to, record.size) != record.crc)
    bad(fmt::format("the record at byte {} does not match its checksum", record.offset));
}

}  // namespace tg
