#pragma once
// The names of a run's files in OUTPUT_DIR, where there may be files of an earlier run of the same
// RUN_ID. log.txt, metrics.jsonl, config.json, checkpoints/, tensorboard/ and final_model.* always
// belong to the same run.
#include <array>
#include <string>
#include <string_view>

namespace tg {

// The files of a run's final model, as it is and quantised.
inline constexpr std::array<std::string_view, 4> kFinalModels = {
    "final_model.safetensors", "final_model.pt", "final_model.int6.ptz", "final_model.int8.ptz"};

// The record of such a file lies beside it, under its name with this ending (of the safetensors
// file in itself).
inline constexpr std::string_view kRecordEnding = ".record.json";

// Whether a run writes a file of this name, in OUTPUT_DIR or with its checkpoints: log.txt,
// config.new.json, trace_rank0.json, finished.json.
bool is_run_file(std::string_view name);

// A run's folder of checkpoints.
std::string checkpoints_folder(const std::string& output_dir);

class RunFiles {
 public:
  // `dir` exists. `continues`: its files are this run's own, which goes on from a checkpoint.
  // Errors: cannot_create (a folder has the name of a file).
  RunFiles(std::string dir, bool continues);

  // The path of log.txt, metrics.jsonl, config.json or tensorboard, a folder. Until take_names() it
  // is log.new.txt and so on where an earlier run's files have the names: a run that fails before
  // its first step does not replace them.
  std::string path(std::string_view name) const;
  // To be called after the first step, or before the evaluations of a run without steps: renames
  // all files of the earlier run, with one number above all existing ones (log.1.txt,
  // final_model.1.pt; the highest is the newest), and the new ones to their final names. Later
  // calls do nothing. Errors: io.
  void take_names();

 private:
  bool exists(std::string_view name) const;
  bool has_content(std::string_view folder) const;
  void rename(const std::string& from, const std::string& to) const;
  int next_number() const;

  std::string dir_;
  bool earlier_;  // an earlier run's files have the names
};

}  // namespace tg
