#pragma once
#include <functional>
#include <optional>
#include <string>

#include "config/settings.h"
#include "files/file_lock.h"

namespace tg {

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
  std::optional<LockFile> lock_;  // rank 0's: on run.lock in it
};

}  // namespace tg
