#pragma once
// The names of a run's files in OUTPUT_DIR, where a former run of the same RUN_ID may have left its
// own. log.txt, metrics.jsonl, config.json and final_model.* always belong to the same run.
#include <string>
#include <string_view>

namespace tg {

class RunFiles {
 public:
  // `dir` exists. Errors: cannot_create (a folder has the name of a file).
  explicit RunFiles(std::string dir);

  // Where the run writes log.txt, metrics.jsonl and config.json: while a former run has the names,
  // log.new.txt and so on, for a run that fails before its first step leaves the former one's.
  std::string path(std::string_view name) const;
  // Once the first step is done: numbers all files of the former run aside, under one number above
  // all that are there (log.1.txt, final_model.1.pt; the highest is the newest), and gives the new
  // ones their names. Later calls do nothing. Errors: io.
  void take_names();

 private:
  bool exists(std::string_view name) const;
  void rename(const std::string& from, const std::string& to) const;
  int next_number() const;

  std::string dir_;
  bool former_;
};

}  // namespace tg
