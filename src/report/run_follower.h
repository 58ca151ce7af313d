#pragma once
// A run's files, which may be growing: read on from where they were read before.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "report/run_events.h"
#include "report/run_record.h"
#include "run_log/metrics_reader.h"

namespace tg {

class RunFollower {
 public:
  explicit RunFollower(RunPath path) : path_(std::move(path)) {}

  // Reads events that were appended since, at most so many bytes and the rest of a line; all from
  // the beginning where the run cut its file back or replaced it. A file that is not there yet, or
  // not all of it, is no error. → whether anything changed.
  bool follow(std::uint64_t most_bytes = UINT64_MAX);
  // There is more to read.
  bool is_behind() const { return behind_; }
  // Bytes of events that the last call read.
  std::uint64_t bytes_read() const { return bytes_; }

  // Whether there is a record: the run has begun.
  bool begun() const { return events_.begun(); }
  // As read_run(), of the events so far.
  nlohmann::json record() const;
  // The record's "status", by the clock.
  nlohmann::json status() const;
  // What is wrong with the files; they are then not read on until they are replaced.
  const std::optional<Error>& error() const { return error_; }
  // Errors: that; missing_input, or bad_data without a "start", where the run has not begun.
  void require_begun() const;
  const std::string& name() const { return config_["name"].get_ref<const std::string&>(); }

 private:
  bool open();
  bool read(std::uint64_t most_bytes);

  RunPath path_;
  nlohmann::json config_ = {{"name", ""}};
  std::optional<MetricsReader> reader_;
  RunEvents events_;
  bool behind_ = false;  // the last call ended at its limit
  std::uint64_t bytes_ = 0;
  std::optional<Error> error_;
  std::optional<Error> missing_;  // a file that is not there
};

// Reads both files, of what the run has written so far → an object:
//   "name" (RUN_ID), "path", "settings" and "origins" by name, "versions", "device" of config.json;
//   "train", "phases", "val": tables by step (ThinnedTable), each with "step", "ms" of training and
//     "tokens" trained on, thinned to some thousand rows;
//   "marks": [{"event", "step", "ms", "tokens", ...}], events at a step; "warnings"; "final",
//     "artifact": events, all in order; of each kind the first and the last hundred;
//   "counts": how many of these there were, by event;
//   "start", "data", "first_step", "closing", "memory": the last event of that name, if any;
//   "exit": that event, where it is the last of all;
//   "status": what the run does now, as RunStatus::as_json() says.
// Errors: missing_input, io; bad_data, naming file and line.
nlohmann::json read_run(const RunPath& path);

}  // namespace tg
