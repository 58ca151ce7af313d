#include "files/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "files/folder.h"

namespace tg {
namespace {

struct flock whole_file(FileLock kind) {
  struct flock lock {};
  lock.l_type = kind == FileLock::shared ? F_RDLCK : F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool set_lock(int descriptor, int command, FileLock kind) {
  auto whole = whole_file(kind);
  return ::fcntl(descriptor, command, &whole) == 0;
}

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

bool try_lock(int descriptor, FileLock kind) {
  return set_lock(descriptor, F_OFD_SETLK, kind);
}

bool wait_for_lock(int descriptor, FileLock kind) {
  return set_lock(descriptor, F_OFD_SETLKW, kind);
}

bool others_have_locked(int descriptor) {
  auto whole = whole_file(FileLock::exclusive);
  return ::fcntl(descriptor, F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

bool has_name(int descriptor, const std::string& path) {
  struct stat own {};
  struct stat named {};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

LockFile::LockFile(const std::string& path, const LockTexts& texts) {
  while (true) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    REQUIRE(descriptor_ >= 0, creation_error(errno), "{}: cannot be created ({}); {}", path,
            std::strerror(errno), texts.elsewhere);
    const bool locked = try_lock(descriptor_, FileLock::exclusive);
    if (locked && has_name(descriptor_, path)) break;
    const int error = errno;
    ::close(std::exchange(descriptor_, -1));
    if (locked) continue;  // the file of a process that has exited in the meantime
    const auto owner = first_line_of(path);
    REQUIRE(error != EAGAIN && error != EACCES, ExitCode::cannot_create,
            "{}, found it locked by {}); wait for that one to end, or {}", texts.taken,
            owner.empty() ? "another process" : owner, texts.elsewhere);
    log_warn("{}: cannot be locked ({}); {}", path, std::strerror(error), texts.unguarded);
    return;
  }
  file_.emplace(path);
  // Only other processes' error messages read it, so failing to write it is no error.
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
