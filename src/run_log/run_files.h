#pragma once
// Names of a run's files in OUTPUT_DIR, which may also hold files of earlier runs of the same
// RUN_ID. log.txt, metrics.jsonl, config.json, checkpoints/, tensorboard/ and final_model.* always
// belong to the same run.
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.h"
#include "files/file_lock.h"

namespace tg {

// File names of a run's final model, unquantised and quantised.
inline constexpr std::array<std::string_view, 4> kFinalModels = {
    "final_model.safetensors", "final_model.pt", "final_model.int6.ptz", "final_model.int8.ptz"};

// Suffix of the record's file beside a final model; a safetensors file contains its record.
inline constexpr std::string_view kRecordEnding = ".record.json";

// Returns whether a run writes a file of this name, in OUTPUT_DIR or its folder of checkpoints,
// such as log.txt, config.new.json, trace_rank0.json or finished.json.
bool is_run_file(std::string_view name);

// Returns a run's folder of checkpoints.
std::string checkpoints_folder(const std::string& output_dir);

class RunFiles {
 public:
  // Precondition: `dir` exists. `continues`: the files in it are this run's own, which resumes.
  // Throws Error(cannot_create) if a folder has the name of one of the files.
  RunFiles(std::string dir, bool continues);

  // Returns the path of log.txt, metrics.jsonl, config.json or the folder tensorboard. Until
  // take_names(), returns log.new.txt and so on if an earlier run's files have the names, so that a
  // run that fails before its first step does not replace them.
  std::string path(std::string_view name) const;
  // Called after the first step, or before the evaluations of a run without steps: renames all
  // files of the earlier run to the next free number (log.1.txt, final_model.1.pt; the highest is
  // the newest), and the new files to their final names. Later calls do nothing. Throws Error(io).
  void take_names();

 private:
  bool exists(std::string_view name) const;
  bool has_content(std::string_view folder) const;
  void rename(const std::string& from, const std::string& to) const;
  int next_number() const;

  std::string dir_;
  bool earlier_;  // an earlier run's files have the names
};

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
