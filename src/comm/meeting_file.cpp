#include "comm/meeting_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file_lock.h"

namespace tg {

namespace {

// There the store's own lock, by flock(), is one of these, and would wait for ours for ever.
bool is_on_nfs(int descriptor) {
  struct statfs system {};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == NFS_SUPER_MAGIC;
}

}  // namespace

MeetingFile open_meeting_file(const std::string& path) {
  while (true) {
    const MeetingFile file{path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    REQUIRE(file.descriptor >= 0, ExitCode::cannot_create,
            "cannot create {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    if (is_on_nfs(file.descriptor)) return file;
    const bool nobodys = try_lock(file.descriptor, FileLock::exclusive);
    const bool ready = !nobodys || ::ftruncate(file.descriptor, 0) == 0;
    REQUIRE(ready && wait_for_lock(file.descriptor, FileLock::shared), ExitCode::cannot_create,
            "cannot lock {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    const bool still_theirs = nobodys || others_have_locked(file.descriptor);
    if (still_theirs && has_name(file.descriptor, file.path)) return file;
    ::close(file.descriptor);  // meanwhile another run's last rank has ended, or all have come
  }
}

void remove_name(const MeetingFile& file) {
  if (has_name(file.descriptor, file.path)) ::unlink(file.path.c_str());
}

}  // namespace tg
