#include "files/lock_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "files/file_lock.h"
#include "files/folder.h"

namespace tg {

namespace {

std::string first_line_of(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

std::string own_name() {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, HOST_NAME_MAX);
  return fmt::format("pid {} on {}", ::getpid(), host);
}

}  // namespace

LockFile::LockFile(const std::string& path, const LockTexts& texts) {
  while (true) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    REQUIRE(descriptor_ >= 0, creation_error(errno), "{}: cannot be created ({}); {}", path,
            std::strerror(errno), texts.elsewhere);
    const bool locked = try_lock(descriptor_, FileLock::exclusive);
    if (locked && has_name(descriptor_, path)) break;
    const int error = errno;
    ::close(std::exchange(descriptor_, -1));
    if (locked) continue;  // the file of a process that has ended meanwhile
    const auto owner = first_line_of(path);
    REQUIRE(error != EAGAIN && error != EACCES, ExitCode::cannot_create,
            "{}, found it locked by {}); wait for that one to end, or {}", texts.taken,
            owner.empty() ? "another process" : owner, texts.elsewhere);
    log_warn("{}: cannot be locked ({}); {}", path, std::strerror(error), texts.unguarded);
    return;
  }
  file_.emplace(path);
  // Only the error message of another process reads it, so failing to write it is no error.
  const auto name = own_name() + "\n";
  if (::ftruncate(descriptor_, 0) == 0) {
    [[maybe_unused]] const auto written = ::write(descriptor_, name.data(), name.size());
  }
}

LockFile::~LockFile() {
  if (descriptor_ < 0) return;
  file_.reset();
  ::close(descriptor_);
}

}  // namespace tg
