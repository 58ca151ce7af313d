#pragma once
// Sends a run's events to its sinks: the log, metrics.jsonl and, with TENSORBOARD, TensorBoard's
// file.
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
    std::string device, versions;  // text for the head of log.txt
  };
  // Creates log.txt (with settings and versions at its head), metrics.jsonl and config.json in the
  // existing folder `dir`, under the names that RunFiles gives. If the run resumes after step
  // `continues_at`, appends to log.txt and metrics.jsonl instead, truncates metrics.jsonl and the
  // events of tensorboard/ after that step, and adds a file to tensorboard/. Only rank 0 writes; it
  // also writes RunEnded when the process exits. Throws Error: cannot_create, io.
  Report(const std::string& dir, const Settings& settings, const Origins& origins,
         const Process& process, std::optional<std::int64_t> continues_at = {});
  ~Report();

  // Renders the event in all sinks. Every rank calls it; ranks other than 0 only log warnings about
  // their own tokens, on standard error.
  void emit(const RunEvent& event);
  // Called before the first StepEnded is emitted: calls take_names(), then emits FirstStepEnded.
  // Throws Error(io).
  void first_step();
  // Renames the files by RunFiles::take_names(), on rank 0. Called before any rank saves a
  // checkpoint, also in a run without steps. Throws Error(io).
  void take_names();

 private:
  int rank_;
  std::optional<RunFiles> files_;  // rank 0 only, as are the sinks below
  LogSink log_;
  std::unique_ptr<TensorboardSink> tensorboard_;
  std::unique_ptr<MetricsSink> metrics_;
};

}  // namespace tg
