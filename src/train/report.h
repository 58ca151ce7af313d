#pragma once
// Everything a run says: the log lines in the scripts' format, metrics.jsonl and the terminal's
// progress line.
#include <optional>
#include <string>

#include "config/settings.h"
#include "eval/validation.h"
#include "store/jsonl.h"
#include "train/machine.h"
#include "train/phases.h"

namespace tg {

// What the opening lines tell of model and data.
struct RunFacts {
  std::int64_t parameters = 0, mtp_parameters = 0;
  int train_shards = 0;
  std::string val_pattern;
  std::int64_t val_tokens = 0;
  std::int64_t micro_steps = 0;
  bool counts_bytes = false;
};

class Report {
 public:
  // `dir` exists. Starts log.txt (with settings and versions at its head), metrics.jsonl and
  // config.json. Errors: cannot_create.
  Report(const std::string& dir, const Settings& settings, const Origins& origins,
         const Machine& machine);

  void opening(const RunFacts& facts);
  void warm_up(std::int64_t step) const;
  // After step `step` (1-based); every step goes to the metrics, lines as TRAIN_LOG_EVERY says.
  void train(std::int64_t step, double loss, double lr_scale, double elapsed_ms, bool last);
  // The phases of step `step`; every step goes to the metrics, lines as TRAINING_TIMING_EVERY says.
  void timing(std::int64_t step, const StepTimes& times, double val_ms, bool last);
  void validation(std::int64_t step, const Score& score, double elapsed_ms, double val_ms);
  void stopping_early(std::int64_t step, double elapsed_ms) const;
  void closing(double train_ms, double val_ms) const;
  // `line_name` as in the log ("DIAGNOSTIC post_ema"), `name` as in the metrics
  // ("DIAGNOSTIC_post_ema").
  void final_score(const std::string& line_name, const std::string& name, const Score& score,
                   double ms);

 private:
  void progress(std::int64_t step, double loss, double elapsed_ms) const;

  const Settings& settings_;
  const Machine& machine_;
  JsonLines metrics_;
  std::int64_t micro_steps_ = 1;
  bool first_step_told_ = false;
};

}  // namespace tg
