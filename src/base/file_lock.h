#pragma once
// Locks of whole files by fcntl, of the open file description: the kernel releases a lock when its
// last descriptor is closed, so a lock ends with its owner, however that dies.
#include <string>

namespace tg {

enum class FileLock { shared, exclusive };  // exclusive ones need a descriptor open for writing

// False with errno EAGAIN or EACCES: another descriptor's lock is in the way; with any other errno
// the file system has no locks.
bool try_lock(int descriptor, FileLock kind);
// Waits until no other lock is in the way. False with errno: the file system has no locks.
bool wait_for_lock(int descriptor, FileLock kind);
bool others_have_locked(int descriptor);

// Whether `path` still names the descriptor's file. Who removes a lock's file while holding the
// lock leaves to others, who may have opened it before, a lock without a name.
bool has_name(int descriptor, const std::string& path);

}  // namespace tg
