#pragma once
// Quantities derived from several settings.
#include <cstdint>
#include <vector>

#include "config/batch_shape.h"
#include "config/settings.h"

namespace tg {

// Micro-batches of a step on up to eight ranks unless GRAD_ACCUM_STEPS is given, and rows of an
// evaluation of long rows on any number of ranks.
inline constexpr std::int64_t kMicroBatches = 8;

// Returns the number of micro-batches that TRAIN_BATCH_TOKENS is divided into.
std::int64_t parts_of_batch(const RunConfig& run, int world_size);
// Returns M, the number of micro-batches of a step over all ranks, by which gradients are divided:
// GRAD_ACCUM_STEPS for each rank if set; else 8 for up to eight ranks, so that a step's tokens do
// not depend on the number of ranks, and one for each rank beyond. In the strided order every rank
// reads a micro-batch in every micro-step, so 8 is rounded up to whole micro-steps.
std::int64_t micro_batches(const Settings& settings, int world_size);
// Returns a rank's micro-steps, ceil(M / W). In the last micro-step of the stream, documents and
// aligned orders some ranks may have no micro-batch.
std::int64_t micro_steps(const Settings& settings, int world_size);
// Returns L, the tokens of a micro-batch (the largest one where TRAIN_BATCH_TOKENS changes):
// TRAIN_BATCH_TOKENS / M, with M before it is rounded up.
std::int64_t micro_batch_tokens(const Settings& settings, int world_size);

// Returns the tokens of the longest training row: the largest TRAIN_SEQ_LEN, or a whole micro-batch
// in the documents and aligned orders.
std::int64_t longest_training_row(const Settings& settings, int world_size);

// Returns SEGMENT_LIMIT, or TRAIN_SEQ_LEN for auto; 0: no limit. segment_limit(): the limit at the
// run's end, which evaluations and samples have too.
CountSchedule segment_limits(const Settings& settings);
std::int64_t segment_limit(const Settings& settings);

// Returns the training time allowed, in seconds: MAX_WALLCLOCK_SECONDS less GPTQ_RESERVE_SECONDS;
// 0: no limit.
double training_seconds(const RunConfig& run);
// Returns the length of the schedule in steps: SCHEDULE_ITERATIONS, else ITERATIONS.
std::int64_t schedule_iterations(const RunConfig& run);
// Returns whether the schedule follows training_seconds() instead of steps: with
// MAX_WALLCLOCK_SECONDS, unless SCHEDULE_ITERATIONS is given.
bool schedule_follows_clock(const RunConfig& run);

// Schedules of TRAIN_BATCH_TOKENS, TRAIN_SEQ_LEN and SEGMENT_LIMIT.

// Returns whether one of them changes during the run.
bool batches_change(const Settings& settings);
// Returns the progress of a run after `steps` and `elapsed_ms` of training: the fraction of
// schedule_iterations() or, where the schedule follows the clock, of training_seconds() if that is
// larger.
RunProgress run_progress(const RunConfig& run, std::int64_t steps, double elapsed_ms);
BatchShape batch_shape(const Settings& settings, int world_size, const RunProgress& progress);
// Returns every batch shape of the run, the first step's first.
std::vector<BatchShape> batch_shapes(const Settings& settings, int world_size);
// Returns the most next tokens that MTP_WEIGHTS weighs in a stage.
std::int64_t next_targets(const ObjectiveConfig& objective);
// Returns whether the loss has other targets than the next token with weight 1.
bool weighs_targets(const ObjectiveConfig& objective);
// Returns the weights of next_targets() tokens and then of the prefix token (PREFIX_WEIGHT) in the
// loss of the step after `progress`; empty if weighs_targets() is false.
std::vector<double> step_target_weights(const Settings& settings, const RunProgress& progress);

// Returns the micro-batches of `tokens` each that a pass takes at once: the largest divisor of a
// rank's number of them that PASS_TOKENS allows; 1 if ranks have different numbers, or where memory
// is measured.
std::int64_t joined_micro_batches(const Settings& settings, int world_size, std::int64_t tokens);
// Returns whether GRAD_ACCUM_STEPS=auto: training and evaluations compute as many sequences at once
// as fit in the GPU's memory, which is measured.
bool measures_memory(const Settings& settings);
// Returns whether evaluations are replayed as CUDA graphs. Not where memory is measured: passes
// that are not replayed would lack the memory that a graph keeps.
bool replays_evaluations(const Settings& settings);
// Returns the tokens of a step over all ranks, M * L, which is more than TRAIN_BATCH_TOKENS if M
// was rounded up: of the first step, of a step with micro-batches of `shape`, and of the largest
// step.
std::int64_t tokens_per_step(const Settings& settings, int world_size);
std::int64_t tokens_per_step(const Settings& settings, int world_size, const BatchShape& shape);
std::int64_t most_tokens_per_step(const Settings& settings, int world_size);
// Returns the tokens of ITERATIONS steps.
double planned_tokens(const Settings& settings, int world_size);
// Returns RECIPE; for auto the recipe whose settings these are.
RecipeChoice resolved_recipe(const Settings& settings);
// Returns the fraction of the schedule that is done after `steps` steps and `elapsed_ms` of
// training: of training_seconds() where the schedule follows the clock, else of
// schedule_iterations().
double schedule_share(const RunConfig& run, std::int64_t steps, double elapsed_ms);
// Returns EMBED_WD, or ADAM_WD for auto.
double embed_wd(const OptimConfig& optim);
// int(MLP_MULT * MODEL_DIM).
std::int64_t mlp_hidden(const ModelConfig& model);
std::int64_t head_dim(const ModelConfig& model);
// Returns QK_HEAD_DIM, or head_dim() for 0.
std::int64_t qk_head_dim(const ModelConfig& model);
// Returns the ATTENTION_WINDOW of a block.
std::int64_t attention_window(const ModelConfig& model, std::int64_t block);
// Returns whether the initial weights of an embedding's projection are random. As in the record, a
// narrow projection (a side under 64) begins at zero.
bool is_drawn_projection(std::int64_t rows, std::int64_t columns);
// Returns EVAL_SEQ_LEN, or the last TRAIN_SEQ_LEN if that is 0.
std::int64_t eval_length(const Settings& settings);

// Returns the tokens of a sequence in training's validations: the last TRAIN_SEQ_LEN, or in the
// documents and aligned orders eval_length().
std::int64_t validation_length(const Settings& settings);

// Returns the number of parts of VAL_BATCH_SIZE, each scored in one forward pass: one for each rank
// and micro-step, as in the reference implementation. Where attention sees segments of rows:
// kMicroBatches, so that scores depend neither on the ranks nor on GRAD_ACCUM_STEPS.
std::int64_t validation_parts(const Settings& settings, int world_size);
// Returns whether the parts are rows with segments, as training's: documents and aligned orders
// with DOCUMENT_ATTENTION.
bool validates_segments_of_rows(const Settings& settings);
// Returns whether a part is one row of several sequences: documents order with
// DOCUMENT_ATTENTION.
bool validates_long_rows(const Settings& settings);

// Returns the overlap switches in effect: TRAINING_TIMING_BREAKDOWN=1 turns all of them off.
IoConfig effective_io(const Settings& settings);

// Returns the most tokens that attention spans in training on rows of `row` tokens: at most
// SEGMENT_LIMIT with DOCUMENT_ATTENTION.
std::int64_t attention_context(const Settings& settings, std::int64_t row);

// Returns the longest row in which phased test-time training scores a document: TTT_EVAL_SEQ_LEN,
// or if that is 0 the tokens that attention spans in training (in the documents and aligned orders
// without a limit: a row of 1 / kMicroBatches of a batch).
std::int64_t adaptation_row(const Settings& settings);

// ROPE_YARN: RoPE's base grows beyond `trained` tokens, for the largest of: `longest`, the context
// of the pass's rows, and the context of the longest row of the same evaluation.
struct RopeStretch {
  std::int64_t trained = 1024;  // 0: never
  std::int64_t longest = 0;
  bool by_row = false;  // whole rows count, also those in which attention spans less
};
// Returns ROPE_LONGEST, auto resolved. ROPE_YARN=auto: the context of training, so that later uses
// of the model have it too; with RECORD_QUIRKS=1 the pass's own rows alone, as in the scripts.
// ROPE_YARN=1: TRAIN_BATCH_TOKENS, for which the script's warm-up builds its table; with
// RECORD_QUIRKS=1 the longest row that the script's run has met.
RopeStretch rope_stretch(const Settings& settings, int world_size);
// Replaces ROPE_LONGEST=auto by its value in training on `world_size` ranks.
void resolve_rope_longest(Settings& settings, int world_size);

}  // namespace tg
