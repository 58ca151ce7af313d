#pragma once
// Events as log lines, in the reference implementation's format, and as the terminal's progress
// line.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "config/settings.h"
#include "run_log/events.h"

namespace tg {

class LogSink {
 public:
  LogSink(const Settings& settings, int world_size)
      : settings_(settings), world_size_(world_size) {}

  void operator()(const RanksJoined& event) const;
  void operator()(const RunStarted& event);
  void operator()(const SizePadded& event) const;
  void operator()(const MicroBatchCut& event) const;
  void operator()(const StageWarmUpBegan& event) const;
  // Logs all steps of at most 20, a later stage's first six, otherwise every tenth and the last.
  void operator()(const WarmUpStepEnded& event) const;
  void operator()(const FirstStepEnded&) const {}  // StepEnded logs the line
  // Logs steps up to 10 and every TRAIN_LOG_EVERY; updates the progress line at every step. After
  // the tenth step of this process, logs the estimated time left if it exceeds a minute.
  void operator()(const StepEnded& event);
  // Logs steps up to 10 and every TRAINING_TIMING_EVERY.
  void operator()(const StepTimed& event) const;
  void operator()(const StepSkipped& event) const;
  void operator()(const Resumed& event) const;
  void operator()(const CheckpointSaved& event) const;
  void operator()(const CheckpointFailed& event) const;
  void operator()(const BatchesChanged& event) const;
  void operator()(const LateQatStarted& event) const;
  void operator()(const StageStarted& event) const;
  void operator()(const SwaStarted& event) const { log_info("swa:start step:{}", event.step); }
  void operator()(const SettingWarning& event) const { warn_line(event.text); }
  void operator()(const TokensStalled& event) const;
  void operator()(const TokensRepeated& event) const;
  void operator()(const Validated& event) const;
  void operator()(const ValidationProgressed& event) const;
  void operator()(const ValidationSummary& event) const;
  void operator()(const TraceWritten& event) const;
  void operator()(const StoppedEarly& event) const;
  void operator()(const LoopEnded& event) const;
  void operator()(const MemoryMeasured& event) const;
  void operator()(const AverageApplied& event) const { log_line(event.line); }
  void operator()(const FinalScored& event) const;
  void operator()(const ModelWritten& event) const;
  void operator()(const HessiansCollected& event) const;
  void operator()(const WeightsQuantized& event) const;
  // Also warns if artifact and code exceed the limit.
  void operator()(const ArtifactWritten& event) const;
  void operator()(const RunEnded&) const {}  // an error is printed on standard error

  // Logs the tokenizer, at RunStarted and in commands that score.
  void tokenizer_lines(const TokenizerFacts& tokenizer) const;
  // Returns the progress line: tokens/s of all ranks, time left, and MFU of all ranks' GPUs if
  // RunStarted gave their peak.
  std::string progress_text(const StepEnded& event) const;

 private:
  void data_lines(const RunStarted& event) const;
  void model_lines(const RunStarted& event) const;
  void part_lines() const;
  void optimizer_lines() const;
  void io_lines(bool on_gpu) const;
  void time_left_line(const StepEnded& event);
  double left_ms(const StepEnded& event, double step_ms) const;

  const Settings& settings_;
  int world_size_;
  double peak_flops_ = 0;  // RunStarted's peak_flops
  // The first step of this process, and the training time at its end.
  std::optional<std::pair<std::int64_t, double>> first_step_;
};

}  // namespace tg
