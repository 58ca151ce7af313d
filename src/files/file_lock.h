#pragma once
// Whole-file locks by fcntl that belong to the open file description: the kernel releases a lock
// when the last descriptor is closed, so also when the process is killed.
#include <optional>
#include <string>

#include "base/remove_on_exit.h"

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

// What a LockFile says where it fails.
struct LockTexts {
  std::string taken;      // "another run writes to OUTPUT_DIR logs/1 (expected no other run"
  std::string elsewhere;  // "choose another OUTPUT_DIR"
  std::string unguarded;  // "nothing keeps another run from writing to this folder"
};

// A file lock that names its owner, and is removed at the end. The system drops the lock when its
// owner exits, so that the file of a killed process locks nobody out.
class LockFile {
 public:
  // Errors: those of creation_error(); cannot_create (another process holds it). Where the file
  // system has no locks it warns, and holds nothing.
  LockFile(const std::string& path, const LockTexts& texts);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  std::optional<RemoveOnExit> file_;  // once it is locked
  int descriptor_ = -1;
};

}  // namespace tg
