#include "comm/meeting_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tg {

namespace {

struct flock whole_file(short kind) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool lock(int descriptor, int command, short kind) {
  auto whole = whole_file(kind);
  return ::fcntl(descriptor, command, &whole) == 0;
}

bool others_have_locked(int descriptor) {
  auto whole = whole_file(F_WRLCK);
  return ::fcntl(descriptor, F_OFD_GETLK, &whole) != 0 || whole.l_type != F_UNLCK;
}

// There the store's own lock, by flock(), is one of these, and would wait for ours for ever.
bool is_on_nfs(int descriptor) {
  struct statfs system {};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == NFS_SUPER_MAGIC;
}

// False when the file was removed, or another one has taken its name.
bool has_its_name(const MeetingFile& file) {
  struct stat own {};
  struct stat named {};
  return ::fstat(file.descriptor, &own) == 0 && ::stat(file.path.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

}  // namespace

MeetingFile open_meeting_file(const std::string& path) {
  while (true) {
    const MeetingFile file{path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    REQUIRE(file.descriptor >= 0, ExitCode::cannot_create,
            "cannot create {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    if (is_on_nfs(file.descriptor)) return file;
    const bool nobodys = lock(file.descriptor, F_OFD_SETLK, F_WRLCK);
    const bool ready = !nobodys || ::ftruncate(file.descriptor, 0) == 0;
    REQUIRE(ready && lock(file.descriptor, F_OFD_SETLKW, F_RDLCK), ExitCode::cannot_create,
            "cannot lock {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    const bool still_theirs = nobodys || others_have_locked(file.descriptor);
    if (still_theirs && has_its_name(file)) return file;
    ::close(file.descriptor);  // meanwhile another run's last rank has ended, or all have come
  }
}

void remove_name(const MeetingFile& file) {
  if (has_its_name(file)) ::unlink(file.path.c_str());
}

}  // namespace tg
