#include "files/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

}  // namespace tg
