#pragma once
// Where the events of a run go: the log and metrics.jsonl.
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "train/events.h"
#include "train/log_sink.h"
#include "train/metrics_sink.h"
#include "train/run_files.h"

namespace tg {

class Report {
 public:
  // `dir` exists. Creates log.txt (with settings and versions at its head), metrics.jsonl and
  // config.json, under the names that RunFiles gives; rank 0 alone writes. Errors: cannot_create.
  Report(const std::string& dir, const Settings& settings, const Origins& origins,
         const Machine& machine, const Communicator& communicator);

  // Every rank may call it. Rank 0's events are reported; of other ranks, only what each finds out
  // about its own tokens.
  void tell(const RunEvent& event);
  // Before anything is told of the first step: the files get their final names. Errors: io.
  void first_step();
  // Before anything is told of the end: so do those of a run without steps. Errors: io.
  void take_names();

 private:
  int rank_;
  std::optional<RunFiles> files_;  // rank 0's, as the metrics
  LogSink log_;
  std::optional<MetricsSink> metrics_;
};

}  // namespace tg
