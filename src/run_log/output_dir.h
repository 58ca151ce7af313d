#pragma once
#include <functional>
#include <optional>
#include <string>

#include "config/settings.h"
#include "files/file_lock.h"

namespace tg {

// Returns rank 0's value of the key on every rank; ignores the other ranks' `value`.
using FromRank0 = std::function<std::string(const std::string& key, const std::string& value)>;

// A run's OUTPUT_DIR, locked for this run. Rank 0 chooses, creates and locks it for all ranks.
class OutputDir {
 public:
  // Sets RUN_ID to a random UUID if it is empty, resolves OUTPUT_DIR (logs/RUN_ID by default, with
  // logs/RUN_ID.txt linked to its log), creates the folder and removes half-written files of killed
  // runs. Throws Error(cannot_create) if the folder cannot be written or another run uses it.
  OutputDir(Settings& settings, int rank, const FromRank0& from_rank_0);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<LockFile> lock_;  // lock of run.lock in the folder; rank 0 only
};

}  // namespace tg
