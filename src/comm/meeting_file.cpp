#include "comm/meeting_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tg {

namespace {

bool lock(int descriptor, int command, short kind) {
  struct flock whole {};
  whole.l_type = kind;
  whole.l_whence = SEEK_SET;
  return ::fcntl(descriptor, command, &whole) == 0;
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
    const bool nobodys = lock(file.descriptor, F_OFD_SETLK, F_WRLCK);
    const bool ready = !nobodys || ::ftruncate(file.descriptor, 0) == 0;
    REQUIRE(ready && lock(file.descriptor, F_OFD_SETLKW, F_RDLCK), ExitCode::cannot_create,
            "cannot lock {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    if (has_its_name(file)) return file;
    ::close(file.descriptor);  // all ranks of another run had come meanwhile
  }
}

void remove_name(const MeetingFile& file) {
  if (has_its_name(file)) ::unlink(file.path.c_str());
}

}  // namespace tg
