#pragma once
// Everything a run says: the log lines in the scripts' format, metrics.jsonl and the terminal's
// progress line.
#include <optional>
#include <string>

#include "comm/communicator.h"
#include "config/settings.h"
#include "eval/validation.h"
#include "store/jsonl.h"
#include "train/machine.h"
#include "train/phases.h"
#include "train/run_files.h"

namespace tg {

// What the opening lines tell of model and data.
struct RunFacts {
  std::int64_t parameters = 0, mtp_parameters = 0;
  int train_shards = 0;
  // Of one pass; nothing while text is still being tokenised.
  std::optional<std::int64_t> train_tokens;
  double planned_tokens = 0;  // that ITERATIONS steps read
  std::string val_pattern;
  std::int64_t val_tokens = 0;
  std::int64_t micro_steps = 0;
  bool counts_bytes = false;
};

struct StepResult {
  std::int64_t step = 0;  // from 1
  double loss = 0, lr_scale = 0;
  double elapsed_ms = 0;
  // Tokens of the stream that all ranks together have used; absent in the strided order.
  std::optional<std::int64_t> token_offset;
  // The pass over the training tokens that it ended in, from 1; nothing while their number is not
  // known.
  std::optional<std::int64_t> pass;
};

class Report {
 public:
  // `dir` exists. Starts log.txt (with settings and versions at its head), metrics.jsonl and
  // config.json, under the names that RunFiles gives; rank 0 alone writes. Errors: cannot_create.
  Report(const std::string& dir, const Settings& settings, const Origins& origins,
         const Machine& machine, const Communicator& communicator);

  void opening(const RunFacts& facts);
  void warm_up(std::int64_t step) const;
  // Every step goes to the metrics, lines as TRAIN_LOG_EVERY says.
  void train(const StepResult& result);
  // The phases of step `step`; every step goes to the metrics, lines as TRAINING_TIMING_EVERY says.
  void timing(std::int64_t step, const StepTimes& times, double val_ms);
  void validation(std::int64_t step, const Score& score, double elapsed_ms, double val_ms);
  // Which validation was the best and which the last.
  void validation_summary();
  void stopping_early(std::int64_t step, double elapsed_ms) const;
  void closing(double train_ms, double val_ms);
  // `line_name` as in the log ("DIAGNOSTIC post_ema"), `name` as in the metrics
  // ("DIAGNOSTIC_post_ema").
  void final_score(const std::string& line_name, const std::string& name, const Score& score,
                   double ms);

 private:
  void write(const nlohmann::json& event);
  void take_names();
  void progress(const StepResult& result) const;
  void warn_of_repetition(const StepResult& result);

  const Settings& settings_;
  const Machine& machine_;
  std::optional<RunFiles> files_;  // rank 0's, as the metrics
  std::optional<JsonLines> metrics_;
  int world_size_;
  std::int64_t micro_steps_ = 1;
  bool first_step_told_ = false, repetition_told_ = false;
  struct Validated {
    std::int64_t step;
    double loss;
  };
  std::optional<Validated> best_, last_;
};

}  // namespace tg
