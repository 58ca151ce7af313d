#pragma once
// The sinks of a run's events: the log, metrics.jsonl and, with TENSORBOARD, TensorBoard's file.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/settings.h"
#include "run_log/events.h"
#include "run_log/log_sink.h"
#include "run_log/run_files.h"

namespace tg {

class MetricsSink;
class TensorboardSink;

class Report {
 public:
  struct Process {
    int rank = 0, world_size = 1;
    std::string device, versions;  // as at the head of log.txt
  };
  // `dir` exists. Creates log.txt (with settings and versions at its head), metrics.jsonl and
  // config.json, under the names that RunFiles gives; or, where the run goes on behind step
  // `continues_at`, appends to the first two, of which metrics.jsonl then ends with that step, as
  // do the events of tensorboard/, to which a file is added.
  // Rank 0 alone writes, also a RunEnded when an error ends the process. Errors: cannot_create, io.
  Report(const std::string& dir, const Settings& settings, const Origins& origins,
         const Process& process, std::optional<std::int64_t> continues_at = {});
  ~Report();

  // Renders the event in both sinks. Every rank calls it; other ranks than 0 render only the
  // warnings about their own tokens, on standard error.
  void emit(const RunEvent& event);
  // To be called before the first StepEnded is emitted: takes the names, then emits FirstStepEnded.
  // Errors: io.
  void first_step();
  // Renames the files as RunFiles does, on rank 0; to be called before any rank saves a checkpoint,
  // also in a run without steps. Errors: io.
  void take_names();

 private:
  int rank_;
  std::optional<RunFiles> files_;  // rank 0's, as the metrics
  LogSink log_;
  std::unique_ptr<TensorboardSink> tensorboard_;
  std::unique_ptr<MetricsSink> metrics_;
};

}  // namespace tg
