#pragma once
// Which tokens of the validation split a rank scores, as places for a ListedOrder.
#include <cstdint>
#include <vector>

#include "data/token_order.h"

namespace tg {

struct ValidationPlan {
  std::vector<Place> places;  // micro-batches of whole sequences, in order
  // Places to score: more than there are where the strided order goes round the split again.
  std::int64_t count = 0;
  std::int64_t places_in_batch = 1;  // so many of them are one batch of VAL_BATCH_SIZE
};

// Predictions of the split in stream order: k * max(train_len, eval_len), as many as there are or,
// when val_tokens > 0, as val_tokens allow. eval_len 0: as training.
// Errors: bad_data when not even one sequence is there.
std::int64_t trimmed_predictions(const TokenSource& source, std::int64_t train_len,
                                 std::int64_t eval_len, std::int64_t val_tokens);

// Stream order: of all `predictions` / seq_len = S sequences, those from ⌊S·rank/W⌋ to
// ⌊S·(rank + 1)/W⌋, `at_once` at a time.
ValidationPlan plan_stream(std::int64_t predictions, std::int64_t seq_len, std::int64_t at_once,
                           int rank, int world_size);

// Strided order, from the first shard on: `batches` reads of `sequences` a rank, each in parts of
// at most `at_once`, since the logits of a whole one may not fit. Errors: those of StridedOrder.
ValidationPlan plan_strided(const TokenSource& source, std::int64_t batches, std::int64_t sequences,
                            std::int64_t seq_len, std::int64_t at_once, int rank, int world_size);

}  // namespace tg
