#include "store/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/progress.h"

namespace tg {
namespace {

// Slow storage shows its progress by such parts: what the system takes at once into its cache it
// would write in one fsync of many minutes.
constexpr size_t kPart = 1 << 20, kSyncedAtOnce = 16 << 20;

bool disk_trouble(int error) {
  return error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(fmt::format("{}.tmp.{}", path_, ::getpid())) {
  // One of our own number is a leftover: this process writes a path once at a time.
  ::unlink(temporary_.c_str());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0)
    fail(disk_trouble(errno) ? ExitCode::io : ExitCode::cannot_create,
         "{}: cannot be created ({}); choose an existing, writable folder", path_,
         std::strerror(errno));
  leftover_.emplace(temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AtomicFile::fail_io(const char* doing, int error) {
  fail(ExitCode::io, "{}: {} failed ({}); what was there before is untouched", path_, doing,
       std::strerror(error));
}

void AtomicFile::write(const void* bytes, size_t count) {
  assert(fd_ >= 0);
  const auto* from = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(fd_, from, std::min(count, kPart));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io("writing", errno);
    from += written;
    count -= static_cast<size_t>(written);
    report_progress(written);
    unsynced_ += static_cast<size_t>(written);
    if (unsynced_ < kSyncedAtOnce) continue;
    if (::fdatasync(fd_) != 0) fail_io("fdatasync", errno);
    report_progress(0);
    unsynced_ = 0;
  }
}

void AtomicFile::commit() {
  assert(fd_ >= 0);
  if (::fsync(fd_) != 0) fail_io("fsync", errno);
  report_progress(0);
  // Network file systems report a full disk only here; the descriptor is gone either way.
  if (::close(std::exchange(fd_, -1)) != 0) fail_io("closing", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    REQUIRE(error != EISDIR, ExitCode::cannot_create, "{}: is a folder, expected a file", path_);
    fail_io("renaming", error);
  }
  leftover_->keep();
  sync_folder(folder_of(path_));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // A folder that may be written but not read, or a file system without fsync of folders: no error.
  if (fd < 0) return;
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  REQUIRE(result == 0 || error == EINVAL || error == ENOTSUP, ExitCode::io,
          "{}: fsync of the folder failed ({})", folder, std::strerror(error));
}

}  // namespace tg
