#pragma once
// Whole-file fcntl locks of the open file description: the kernel releases a lock when the last
// descriptor is closed, even if the process is killed.
#include <optional>
#include <string>

#include "base/process_exit.h"

namespace tg {

enum class FileLock { shared, exclusive };  // exclusive: the descriptor must be open for writing

// Returns false with errno EAGAIN or EACCES if another descriptor has a conflicting lock; with any
// other errno if the file system does not support locks.
bool try_lock(int descriptor, FileLock kind);
// Waits until no other lock conflicts. Returns false with errno if the file system does not support
// locks.
bool wait_for_lock(int descriptor, FileLock kind);
bool others_have_locked(int descriptor);

// Returns whether `path` still names the descriptor's file. If the owner of a lock unlinks the
// file, a process that opened it earlier locks a file that no other process will find.
bool has_name(int descriptor, const std::string& path);

// Texts for LockFile's messages.
struct LockTexts {
  std::string taken;      // "another run writes to OUTPUT_DIR logs/1 (expected no other run"
  std::string elsewhere;  // "choose another OUTPUT_DIR"
  std::string unguarded;  // "nothing keeps another run from writing to this folder"
};

// Lock file that names its owner and is removed at the end. The system releases the lock when the
// owner exits, so the file of a killed process locks nobody out.
class LockFile {
 public:
  // Throws Error(cannot_create) if another process holds the lock, and the code of creation_error()
  // if the file cannot be created. If the file system has no locks, warns and holds nothing.
  LockFile(const std::string& path, const LockTexts& texts);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

 private:
  std::optional<RemoveOnExit> file_;  // set while locked
  int descriptor_ = -1;
};

}  // namespace tg
