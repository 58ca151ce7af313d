#pragma once
// What happens in a run, each event once. LogSink renders it as a log line, MetricsSink as an
// object of metrics.jsonl; a new event does not compile until both render it.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "artifact/write_artifact.h"
#include "config/choices.h"
#include "device/gpu_memory.h"
#include "eval/validation.h"
#include "train/phases.h"

namespace tg {

// The start.

// Of several ranks: how they found each other and what reduces their gradients.
struct RanksJoined {
  int world_size = 1;
  std::string launcher, endpoint, collectives;
};

// What TOKENIZER_PATH is, and what val_bpb is with it.
struct TokenizerFacts {
  std::string format;               // "sentencepiece" or "gpt2"
  int pieces = 0;                   // at most VOCAB_SIZE
  std::string normalisation;        // what it changes of a text; empty: nothing
  std::int64_t unknown_tokens = 0;  // to predict in the validation split, of 0 bytes each
  bool has_val_bpb = true;          // those do not hide spaces
};

// What was resolved from the settings, the data and the machine.
struct RunStarted {
  std::string dataset;  // the last component of DATA_PATH
  int train_shards = 0;
  std::optional<std::int64_t> train_tokens;  // in one pass; unknown while text is being tokenised
  double planned_tokens = 0;                 // that ITERATIONS steps read
  std::string val_pattern;
  std::int64_t val_tokens = 0;
  std::optional<TokenizerFacts> tokenizer;
  std::int64_t parameters = 0, mtp_parameters = 0;
  int world_size = 1;
  std::int64_t micro_steps = 1;  // of one rank
  std::int64_t micro_batches = 1, tokens_per_step = 0;
  std::optional<std::int64_t> schedule_iterations{};  // absent where it follows the clock
  std::string attention_kernel, device, compute_dtype;
  std::string fp8;  // the products that are in FP8, as the setting names them; empty: none
  std::string threads;
  double peak_flops = 0;  // of one rank's GPU, a second; 0: unknown
};

// A size that the model computes with, larger than the settings' because a GPU is slow at that one.
struct SizePadded {
  std::string name;  // "vocab", "model_dim", "head_dim" or "mlp"
  std::int64_t size = 0, padded = 0;
};

// GRAD_ACCUM_STEPS=auto: micro-batches of `sequences` are computed in parts.
struct MicroBatchCut {
  std::int64_t sequences = 0, parts = 1;
  // Bytes of the GPU that the passes over a part take with all else, and that there are; 0 on a
  // CPU, where nothing is measured.
  std::int64_t peak = 0, usable = 0;
};

struct WarmUpStepEnded {
  std::int64_t step = 0, steps = 0;  // step from 1
};

// Training steps, counted from 1.

// Once a process, before its first StepEnded.
struct FirstStepEnded {
  double ms_since_launch = 0;
};

struct StepEnded {
  std::int64_t step = 0;
  double loss = 0, lr_scale = 0;
  double grad_norm = 0;     // global, before clipping
  double elapsed_ms = 0;    // training time
  std::int64_t tokens = 0;  // trained on by all ranks so far
  std::int64_t seq_len = 0;
  double flops_per_token = 0;          // of training on rows of seq_len
  std::optional<double> loss_scale{};  // in fp16
  // Tokens of the stream that all ranks together have used; absent in the strided order.
  std::optional<std::int64_t> token_offset;
  // The pass over the training tokens in which it ended, from 1; absent while their number is
  // unknown.
  std::optional<std::int64_t> pass;
};

struct StepTimed {
  std::int64_t step = 0, micro_steps = 1;
  StepTimes times;    // of all micro-steps together
  double val_ms = 0;  // validation since the step before

  // As they are reported: batch, forward and backward as means over the micro-steps; the reference
  // implementation's fields first.
  std::vector<std::pair<const char*, double>> named_values() const;
  static constexpr std::size_t kReferenceFields = 8, kLineFields = 11;
};

// The loss or the gradient was not finite and the update was not made.
struct StepSkipped {
  std::int64_t step = 0;
  double loss = 0, grad_norm = 0;
  std::int64_t total = 0;  // skipped so far for the same reason
  // With it the gradient overflowed in fp16, and is halved; else nothing explains it.
  std::optional<double> loss_scale{};
};

// Checkpoints.

// The run goes on from a checkpoint; its next step is `step` + 1.
struct Resumed {
  std::int64_t step = 0;
  std::string checkpoint;
  int world_size = 1;  // of the run that saved it
};
struct CheckpointSaved {
  std::int64_t step = 0;
  std::string checkpoint;
  std::uint64_t bytes = 0;
  double stall_ms = 0;  // that training waited for it
  double write_ms = 0;  // beside training
};
struct CheckpointFailed {  // training goes on
  std::int64_t step = 0;
  std::string error;
};

// The schedule.

// TRAIN_BATCH_TOKENS or TRAIN_SEQ_LEN has another value from the next step on.
struct BatchesChanged {
  std::int64_t step = 0;  // steps done before it
  std::int64_t tokens_per_step = 0, seq_len = 0;
};
struct LateQatStarted {
  std::int64_t step = 0;  // steps done before it
  double lr_scale = 0;
};
struct SwaStarted {
  std::int64_t step = 0;
};

// Warnings.

struct SettingWarning {
  std::string text;
};
// Training waited for tokens in these steps.
struct TokensStalled {
  std::int64_t first_step = 0, last_step = 0;
  double waited_ms = 0, elapsed_ms = 0;
};
// The pass over the training tokens from which on repetition may harm.
struct TokensRepeated {
  std::int64_t step = 0, pass = 0;
};

// Validation.

struct Validated {
  std::int64_t step = 0;
  Score score;
  double elapsed_ms = 0;  // training time
  double val_ms = 0;      // spent on this validation
};
struct ValidationSummary {
  std::int64_t best_step = 0, last_step = 0;
  double best_loss = 0, last_loss = 0;
};

// The end.

struct TraceWritten {
  std::string path;
  std::string error;  // why there is no file; empty: there is one
};
struct StoppedEarly {  // by MAX_WALLCLOCK_SECONDS
  std::int64_t step = 0;
  double elapsed_ms = 0;
};
struct LoopEnded {
  double train_ms = 0, val_ms = 0;
};
struct MemoryMeasured {
  MemoryPeak peak;
};
struct AverageApplied {
  std::string line;  // WeightAverage::apply()'s, such as "ema:applying EMA weights"
};
// A score of the final weights.
struct FinalScored {
  std::string line_name;  // in the log: "DIAGNOSTIC post_ema"
  std::string name;       // in the metrics: "DIAGNOSTIC_post_ema"
  Score score;
  double eval_ms = 0;
  std::int64_t stride = 0;  // of a sliding window, else 0
  bool exact_line = false;  // a second line repeats the score in eight digits, under `name`
};
struct ModelWritten {
  std::uintmax_t torch_bytes = 0, safetensors_bytes = 0;  // of final_model.pt, .safetensors
  std::int64_t excluded_parameters = 0;                   // of the multi-token heads
  std::int64_t code_bytes = 0;
};
// The quantised artifact.
struct ArtifactWritten {
  std::string path;
  Artifact format = Artifact::int6;  // or int8_zlib
  ArtifactStats stats{};
  std::int64_t code_bytes = 0;

  // The challenge's limit for artifact and code together.
  static constexpr std::int64_t kLimitBytes = 16'000'000;
  std::int64_t total_bytes() const {
    return static_cast<std::int64_t>(stats.file_bytes) + code_bytes;
  }
};

// The process ends, and can still say so: the last event.
struct RunEnded {
  int exit_code = 0;
  std::optional<std::int64_t> step{};  // done so far, where that is known
  std::string error;                   // the error's message; empty with exit code 0
};

using RunEvent =
    std::variant<RanksJoined, RunStarted, SizePadded, MicroBatchCut, WarmUpStepEnded, Resumed,
                 FirstStepEnded, StepEnded, StepTimed, StepSkipped, CheckpointSaved,
                 CheckpointFailed, BatchesChanged, LateQatStarted, SwaStarted, SettingWarning,
                 TokensStalled, TokensRepeated, Validated, ValidationProgress, ValidationSummary,
                 TraceWritten, StoppedEarly, LoopEnded, MemoryMeasured, AverageApplied, FinalScored,
                 ModelWritten, ArtifactWritten, RunEnded>;

}  // namespace tg
