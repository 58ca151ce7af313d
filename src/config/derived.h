#pragma once
// Quantities derived from several settings.
#include <cstdint>
#include <vector>

#include "config/batch_shape.h"
#include "config/settings.h"

namespace tg {

// What a step has on up to eight ranks unless GRAD_ACCUM_STEPS says otherwise, and what an
// evaluation of long rows goes by on any number of ranks.
inline constexpr std::int64_t kMicroBatches = 8;

// The number of micro-batches that TRAIN_BATCH_TOKENS is divided into.
std::int64_t parts_of_batch(const RunConfig& run, int world_size);
// M, the number of micro-batches of a step over all ranks, by which gradients are divided:
// GRAD_ACCUM_STEPS for each rank if set; else 8 for up to eight ranks, so that a step has the same
// tokens on any number of ranks, and one for each rank beyond. In the strided order every rank
// reads a micro-batch in every round, so 8 is rounded up to whole rounds.
std::int64_t micro_batches(const Settings& settings, int world_size);
// Rounds of a rank, ceil(M / W). In the last round of the stream, documents and aligned orders
// some ranks may have no micro-batch.
std::int64_t micro_steps(const Settings& settings, int world_size);
// L, the tokens of a micro-batch, of the largest where TRAIN_BATCH_TOKENS changes:
// TRAIN_BATCH_TOKENS / M, with M before it is rounded up.
std::int64_t micro_batch_tokens(const Settings& settings, int world_size);

// The longest row that is trained on: TRAIN_SEQ_LEN's largest, or a whole micro-batch in the
// documents and aligned orders.
std::int64_t longest_training_row(const Settings& settings, int world_size);

// SEGMENT_LIMIT, or TRAIN_SEQ_LEN if that is auto; 0: none.
std::int64_t segment_limit(const Settings& settings);

// Training time allowed in seconds: MAX_WALLCLOCK_SECONDS less GPTQ_RESERVE_SECONDS; 0: any.
double training_seconds(const RunConfig& run);
// The steps that the schedule counts in: SCHEDULE_ITERATIONS, else ITERATIONS.
std::int64_t schedule_iterations(const RunConfig& run);
// Whether the schedule follows training_seconds() instead: with MAX_WALLCLOCK_SECONDS, unless
// SCHEDULE_ITERATIONS is given.
bool schedule_follows_clock(const RunConfig& run);

// The schedules of TRAIN_BATCH_TOKENS and TRAIN_SEQ_LEN.

// Whether one of them changes its value.
bool batches_change(const RunConfig& run);
// `steps` done, `elapsed_ms` of training: as a share of schedule_iterations() or, where the
// schedule follows the clock, of training_seconds() if that is nearer its end.
RunProgress run_progress(const RunConfig& run, std::int64_t steps, double elapsed_ms);
BatchShape batch_shape(const Settings& settings, int world_size, const RunProgress& progress);
// Every shape that some progress has, the first one first.
std::vector<BatchShape> batch_shapes(const Settings& settings, int world_size);
// GRAD_ACCUM_STEPS=auto: training and evaluations compute as many sequences at once as, measured,
// fit in the GPU's memory.
bool measures_memory(const Settings& settings);
// Whether evaluations are replayed as CUDA graphs. Not where memory is measured: what a graph keeps
// would be missing for the passes that are not replayed.
bool replays_evaluations(const Settings& settings);
// Tokens of a step over all ranks: M * L, more than TRAIN_BATCH_TOKENS if M was rounded up. Of the
// first step, of one with micro-batches of that shape, and of the largest.
std::int64_t tokens_per_step(const Settings& settings, int world_size);
std::int64_t tokens_per_step(const Settings& settings, int world_size, const BatchShape& shape);
std::int64_t most_tokens_per_step(const Settings& settings, int world_size);
// Of ITERATIONS steps.
double planned_tokens(const Settings& settings, int world_size);
// RECIPE, or what RECIPE=auto stands for: the recipe that these settings are of.
RecipeChoice resolved_recipe(const Settings& settings);
// The share of the schedule that is done after `steps` steps and `elapsed_ms` of training: of
// training_seconds() where it follows the clock, else of schedule_iterations().
double schedule_share(const RunConfig& run, std::int64_t steps, double elapsed_ms);
// EMBED_WD, or ADAM_WD if that is auto.
double embed_wd(const OptimConfig& optim);
// int(MLP_MULT * MODEL_DIM).
std::int64_t mlp_hidden(const ModelConfig& model);
std::int64_t head_dim(const ModelConfig& model);
// ATTENTION_WINDOW of a block.
std::int64_t attention_window(const ModelConfig& model, std::int64_t block);
// Whether the initial weights of an embedding's projection are random. As in the record, those of
// narrow ones (a side under 64) are zero.
bool is_drawn_projection(std::int64_t rows, std::int64_t columns);
// EVAL_SEQ_LEN, or TRAIN_SEQ_LEN, the last one, if that is 0.
std::int64_t eval_length(const Settings& settings);

// The tokens of a sequence in training's validations: TRAIN_SEQ_LEN, the last one, or in the
// documents and aligned orders eval_length().
std::int64_t validation_length(const Settings& settings);

// The parts of VAL_BATCH_SIZE that are scored at once: a rank's share of one micro-step, as in the
// reference implementation. Where attention sees segments of rows: kMicroBatches, so that scores
// depend neither on the ranks nor on GRAD_ACCUM_STEPS.
std::int64_t validation_parts(const Settings& settings, int world_size);
// Whether such parts are rows with segments, as training's: documents and aligned orders,
// DOCUMENT_ATTENTION.
bool validates_segments_of_rows(const Settings& settings);
// Whether such a part is one row of several sequences: documents order, DOCUMENT_ATTENTION.
bool validates_long_rows(const Settings& settings);

// The overlap switches in effect: TRAINING_TIMING_BREAKDOWN=1 turns all of them off.
IoConfig effective_io(const Settings& settings);

}  // namespace tg
