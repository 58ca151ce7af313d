#pragma once
// A run that may still be training: its files, read on from where they were read before.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "report/run_events.h"
#include "report/run_record.h"
#include "store/metrics_reader.h"

namespace tg {

class RunFollower {
 public:
  explicit RunFollower(RunPath path) : path_(std::move(path)) {}

  // Reads events that were appended since, at most so many bytes and the rest of a line; all from
  // the beginning where the run cut its file back or replaced it. A file that is not there yet, or
  // not all of it, is no error. → whether anything changed.
  bool follow(std::uint64_t most_bytes);
  // There is more to read.
  bool is_behind() const { return behind_; }
  // Bytes of events that the last call read.
  std::uint64_t bytes_read() const { return bytes_; }

  // Whether there is a record: the run has begun.
  bool begun() const { return events_.begun(); }
  // As read_run(), of the events so far.
  nlohmann::json record() const;
  // What is wrong with the files; they are then not read on until they are replaced.
  const std::string& error() const { return error_; }
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
  std::string error_;
};

}  // namespace tg
