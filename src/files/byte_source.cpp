#include "files/byte_source.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/progress.h"

namespace tg {
namespace {

constexpr size_t kPart = 4 << 20;  // bytes between two progress reports of a long read

}  // namespace

std::string ByteSource::read(uint64_t offset, size_t count) const {
  std::string bytes(count, '\0');
  read(offset, bytes.data(), count);
  return bytes;
}

FileSource::FileSource(const std::string& path) : ByteSource(path), file_(File::open(path)) {
  size_ = static_cast<uint64_t>(file_.size());
}

void FileSource::read(uint64_t offset, void* to, size_t count) const {
  assert(holds(offset, count));
  for (std::span left(static_cast<std::byte*>(to), count); !left.empty();) {
    const auto part = left.first(std::min(left.size(), kPart));
    const int64_t got = file_.read_at(static_cast<int64_t>(offset), part);
    REQUIRE(got == std::ssize(part), ExitCode::io,
            "{}: shrank while being read (expected {} bytes, found {})", name(), size(),
            offset + static_cast<uint64_t>(got));
    left = left.subspan(part.size());
    offset += part.size();
    report_progress(got);
  }
}

bool FileSource::grow() {
  if (!file_.has_name()) return false;
  const auto now = static_cast<uint64_t>(file_.size());
  if (now < size_) return false;
  size_ = now;
  return true;
}

void MemorySource::read(uint64_t offset, void* to, size_t count) const {
  assert(holds(offset, count));
  if (count > 0) std::memcpy(to, bytes_.data() + offset, count);
}

}  // namespace tg
