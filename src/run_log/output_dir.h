#pragma once
#include <functional>
#include <optional>
#include <string>

#include "base/remove_on_exit.h"
#include "config/settings.h"

namespace tg {

// A lock on a folder that one run at a time writes to: a file lock on run.lock in it, which names
// the owner and is removed at the end. The system drops the lock when its owner exits, so a killed
// run's run.lock locks nobody out.
class FolderLock {
 public:
  // Errors: cannot_create (another process holds it). Where the file system has no locks it warns,
  // and holds nothing.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::string path_;
  std::optional<RemoveOnExit> file_;  // once it is locked
  int descriptor_ = -1;
};

// Rank 0's value of that key on every rank; the other ranks' `value` is ignored.
using FromRank0 = std::function<std::string(const std::string& key, const std::string& value)>;

// A run's OUTPUT_DIR, held for this run alone. Rank 0 chooses, creates and locks it for all ranks;
// its folder is every rank's.
class OutputDir {
 public:
  // Gives a run without RUN_ID a random one (a uuid), resolves OUTPUT_DIR (logs/RUN_ID by default,
  // with logs/RUN_ID.txt linked to its log), creates the folder and removes what killed runs left
  // half written in it. Errors: cannot_create (it cannot be written, or another run writes there).
  OutputDir(Settings& settings, int rank, const FromRank0& from_rank_0);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<FolderLock> lock_;  // rank 0's
};

}  // namespace tg
