#include "comm/store_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "files/file_lock.h"

namespace tg {

namespace {

// On NFS the store's own flock() is a lock of the same kind as ours and would block on it for ever.
bool is_on_nfs(int descriptor) {
  struct statfs system {};
  return ::fstatfs(descriptor, &system) == 0 && system.f_type == NFS_SUPER_MAGIC;
}

}  // namespace

StoreFile open_store_file(const std::string& path) {
  while (true) {
    const StoreFile file{path, ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
    REQUIRE(file.descriptor >= 0, ExitCode::cannot_create,
            "cannot create {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    if (is_on_nfs(file.descriptor)) return file;
    const bool unlocked = try_lock(file.descriptor, FileLock::exclusive);
    const bool truncated = !unlocked || ::ftruncate(file.descriptor, 0) == 0;
    REQUIRE(truncated && wait_for_lock(file.descriptor, FileLock::shared), ExitCode::cannot_create,
            "cannot lock {} ({}); set TMPDIR, or set MASTER_ADDR", path, std::strerror(errno));
    const bool in_use = unlocked || others_have_locked(file.descriptor);
    if (in_use && has_name(file.descriptor, file.path)) return file;
    // Between open() and the lock, another job's last rank exited or unlinked the file: try again.
    ::close(file.descriptor);
  }
}

void unlink_store_file(const StoreFile& file) {
  if (has_name(file.descriptor, file.path)) ::unlink(file.path.c_str());
}

}  // namespace tg
