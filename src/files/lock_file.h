#pragma once
#include <optional>
#include <string>

#include "base/remove_on_exit.h"

namespace tg {

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
