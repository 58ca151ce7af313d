#pragma once
// Events as log lines, in the reference implementation's format, and as the terminal's progress
// line.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "config/settings.h"
#include "run_log/events.h"

namespace tg {

class LogSink {
 public:
  LogSink(const Settings& settings, int world_size)
      : settings_(settings), world_size_(world_size) {}

  void operator()(const RunEvent& event);
  // Returns the progress line: tokens/s of all ranks, time left, and MFU of all ranks' GPUs if
  // RunStarted gave their peak.
  std::string progress_text(const StepEnded& event) const;

 private:
  class Lines;  // has an overload for each event
  void time_left_line(const StepEnded& event);
  double left_ms(const StepEnded& event, double step_ms) const;

  const Settings& settings_;
  int world_size_;
  double peak_flops_ = 0;  // RunStarted's peak_flops
  // The first step of this process, and the training time at its end.
  std::optional<std::pair<std::int64_t, double>> first_step_;
};

// Logs what was resolved at the start of a run.
void log_start(const RunStarted& event, const Settings& settings);
// Logs the tokenizer, at the start of a run and in commands that score.
void log_tokenizer(const TokenizerFacts& tokenizer, const Settings& settings);

}  // namespace tg
