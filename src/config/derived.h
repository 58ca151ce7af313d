#pragma once
// The few numbers that follow from several settings.
#include <cstdint>

#include "config/settings.h"

namespace tg {

// Into how many micro-batches TRAIN_BATCH_TOKENS is cut.
std::int64_t parts_of_batch(const RunConfig& run, int world_size);
// M, the micro-batches of a step over all ranks, by whose number gradients are divided. With
// GRAD_ACCUM_STEPS that many a rank. Else 8 for up to eight ranks, so that the same tokens make the
// same step whatever their number, and one a rank for more. In the strided order every rank reads
// in every round, so there 8 is rounded up to whole rounds.
std::int64_t micro_batches(const Settings& settings, int world_size);
// Rounds of one rank, ceil(M / W): in the last one of the stream order some ranks may have no
// micro-batch.
std::int64_t micro_steps(const Settings& settings, int world_size);
// L, the tokens that a micro-batch trains on: TRAIN_BATCH_TOKENS / M, where M is not rounded up.
std::int64_t micro_batch_tokens(const Settings& settings, int world_size);
// Tokens that a step trains on, all ranks together: M * L, more than TRAIN_BATCH_TOKENS where M is
// rounded up.
std::int64_t tokens_per_step(const Settings& settings, int world_size);
// int(MLP_MULT * MODEL_DIM).
std::int64_t mlp_hidden(const ModelConfig& model);
std::int64_t head_dim(const ModelConfig& model);
// Whether the initial weights of a projection of embeddings are drawn; the record leaves narrow
// ones at zero.
bool is_drawn_projection(std::int64_t rows, std::int64_t columns);
// EVAL_SEQ_LEN, or TRAIN_SEQ_LEN where that is 0.
std::int64_t eval_length(const Settings& settings);

// The switches as they take effect: TRAINING_TIMING_BREAKDOWN=1 turns all overlap off.
IoConfig effective_io(const Settings& settings);

}  // namespace tg
