#pragma once
// Whole-file locks by fcntl that belong to the open file description: the kernel releases a lock
// when the last descriptor is closed, so also when the process is killed.
#include <string>

namespace tg {

enum class FileLock { shared, exclusive };  // exclusive: the descriptor must be open for writing

// False with errno EAGAIN or EACCES: another descriptor has a conflicting lock; with any other
// errno the file system does not support locks.
bool try_lock(int descriptor, FileLock kind);
// Waits until no other lock conflicts. False with errno: the file system does not support locks.
bool wait_for_lock(int descriptor, FileLock kind);
bool others_have_locked(int descriptor);

// Whether `path` still names the descriptor's file. If the owner of a lock unlinks the file, a
// process that opened it earlier locks a file that no other process will find.
bool has_name(int descriptor, const std::string& path);

}  // namespace tg
