#pragma once
// Places of the validation split that a rank scores, for a ListedOrder.
#include <cstdint>
#include <vector>

#include "data/token_order.h"

namespace tg {

struct ValidationPlan {
  std::vector<TokenSpan> places;  // micro-batches of whole sequences, in order
  // Places to score; more than places.size() if the strided order repeats the split.
  std::int64_t count = 0;
  std::int64_t places_in_batch = 1;  // places per batch of VAL_BATCH_SIZE
};

// Returns the number of predictions of the split in stream order: the largest multiple of
// max(train_len, eval_len) that the split and, if > 0, val_tokens allow. eval_len 0: train_len.
// Throws Error(bad_data) if the split is shorter than one sequence.
std::int64_t trimmed_predictions(const TokenSource& source, std::int64_t train_len,
                                 std::int64_t eval_len, std::int64_t val_tokens);

// Stream order: of S = predictions / seq_len sequences, this rank scores [⌊S·rank/W⌋, ⌊S·(rank +
// 1)/W⌋), `at_once` at a time.
ValidationPlan plan_stream(std::int64_t predictions, std::int64_t seq_len, std::int64_t at_once,
                           int rank, int world_size);

// Documents order: rows of `at_once` sequences, the last row of the remaining ones, assigned to
// ranks in blocks as plan_stream() assigns sequences. With `quirks` like the reference
// implementation: only the whole rows among the sequences that plan_stream() assigns to this rank.
ValidationPlan plan_rows(std::int64_t predictions, std::int64_t seq_len, std::int64_t at_once,
                         int rank, int world_size, bool quirks);

// Strided order, from the first shard: each rank reads `batches` batches of `sequences`, each in
// parts of at most `at_once` sequences, since the logits of a whole batch may not fit in memory.
// Throws what StridedOrder throws.
ValidationPlan plan_strided(const TokenSource& source, std::int64_t batches, std::int64_t sequences,
                            std::int64_t seq_len, std::int64_t at_once, int rank, int world_size);

}  // namespace tg
