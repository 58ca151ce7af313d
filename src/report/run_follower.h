#pragma once
// Follows a run's files while they grow, like tail -f.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "report/run_events.h"
#include "run_log/metrics_reader.h"

namespace tg {

// The files of a run.
struct RunPath {
  std::string metrics;  // metrics.jsonl
  std::string config;   // config.json
};

// Returns the fields of config.json that read_run() lists, and "path". Throws Error: missing_input,
// io; bad_data, naming the file.
nlohmann::json read_run_config(const RunPath& path);

// Renames runs (read_run()'s objects) that share a name to their paths.
void tell_apart(nlohmann::json& runs);

class RunFollower {
 public:
  explicit RunFollower(RunPath path) : path_(std::move(path)) {}

  // Reads the events that were appended since the last call: at most `max_bytes`, plus the rest of
  // a line. Starts from the beginning if the run truncated or replaced its file. A missing or
  // incomplete file is no error. Returns whether anything changed.
  bool follow(std::uint64_t max_bytes = UINT64_MAX);
  // Whether the last call stopped at its limit: there is more to read.
  bool is_behind() const { return behind_; }
  // Bytes of events that the last call read.
  std::uint64_t bytes_read() const { return bytes_; }

  // Whether the run has begun, so that there is a record.
  bool begun() const { return events_.begun(); }
  // Returns read_run()'s object for the events so far.
  nlohmann::json record() const;
  // Returns the record's present "status".
  nlohmann::json status() const;
  // Error in the files, if any; they are then not read until they are replaced.
  const std::optional<Error>& error() const { return error_; }
  // Throws error(), if any; Error: missing_input for a missing file, bad_data if there is no
  // "start".
  void require_begun() const;
  const std::string& name() const { return config_["name"].get_ref<const std::string&>(); }

 private:
  bool open();
  bool read(std::uint64_t max_bytes);

  RunPath path_;
  nlohmann::json config_ = {{"name", ""}};
  std::optional<MetricsReader> reader_;
  RunEvents events_;
  bool behind_ = false;  // the last call stopped at its limit
  std::uint64_t bytes_ = 0;
  std::optional<Error> error_;
  std::optional<Error> missing_;  // error about a missing file
};

// Reads both files as far as they are written. Returns an object:
//   "name" (RUN_ID), "path", "settings" and "origins" by name, "versions", "device" from
//   config.json; "train", "phases", "val": tables by step (ThinnedTable), each with "step",
//   training "ms" and "tokens",
//     thinned to some thousand rows;
//   "marks": [{"event", "step", "ms", "tokens", ...}], events at a step; "warning", "final",
//     "artifact": lists of events in order, the first and the last hundred of each kind;
//   "counts": number of these events, by name;
//   "start", "data", "first_step", "closing", "memory": the last event of that name, if any;
//   "exit": the event of that name, if it is the last of all events;
//   "status": the run's present state, RunStatus::as_json().
// Throws Error: missing_input, io; bad_data, naming file and line.
nlohmann::json read_run(const RunPath& path);

}  // namespace tg
