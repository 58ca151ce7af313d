#include "store/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/progress.h"

namespace tg {

namespace {

constexpr size_t kPart = 4 << 20;  // a long read reports its progress after each

}  // namespace

std::string ByteSource::read(uint64_t offset, size_t count) const {
  std::string bytes(count, '\0');
  read(offset, bytes.data(), count);
  return bytes;
}

FileSource::FileSource(const std::string& path) : ByteSource(path) {
  // O_NONBLOCK: opening a named pipe would wait for its writer.
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    fail(missing ? ExitCode::missing_input : ExitCode::io, "{}: cannot be opened ({})", path,
         std::strerror(errno));
  }
  struct stat info {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail(ExitCode::io, "{}: expected a regular file", path);
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

FileSource::~FileSource() {
  ::close(fd_);
}

void FileSource::read(uint64_t offset, void* to, size_t count) const {
  assert(holds(offset, count));
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(fd_, at, std::min(count, kPart), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    REQUIRE(got >= 0, ExitCode::io, "{}: reading failed at byte {} ({})", name(), offset,
            std::strerror(errno));
    REQUIRE(got > 0, ExitCode::io, "{}: shrank while being read (expected {} bytes, found {})",
            name(), size(), offset);
    at += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
    report_progress(got);
  }
}

bool FileSource::grow() {
  struct stat opened {
  }, named{};
  const bool same = ::fstat(fd_, &opened) == 0 && ::stat(name().c_str(), &named) == 0 &&
                    opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
  const auto now = static_cast<uint64_t>(opened.st_size);
  if (!same || now < size_) return false;
  size_ = now;
  return true;
}

MemorySource::MemorySource(std::string_view bytes, std::string name)
    : ByteSource(std::move(name)), bytes_(bytes) {
  size_ = bytes.size();
}

void MemorySource::read(uint64_t offset, void* to, size_t count) const {
  assert(holds(offset, count));
  if (count > 0) std::memcpy(to, bytes_.data() + offset, count);
}

}  // namespace tg
