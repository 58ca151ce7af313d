#pragma once
// Common parts of the documents and aligned orders.
#include <cstdint>

#include "data/token_order.h"

namespace tg {

// A step is M rows of L + 1 tokens, each a micro-batch, dealt in rounds of rows of one shard.
struct DocumentRows {
  std::int64_t tokens;    // L, the maximum
  std::int64_t of_step;   // M, rows per step
  std::int64_t of_round;  // rows per round: M or W; a step's last round may be shorter

  // Returns the rows of the current round that are not yet dealt, after `dealt` rows of the step.
  std::int64_t left_in_round(std::int64_t dealt) const;
  // Throws Error(config) for a state that such an order cannot have with that many ranks.
  void require_possible(const LoaderState& state, std::int64_t world_size) const;
};

// Throws Error(bad_data) for data in which the token BOS_ID=`bos_id` does not occur.
[[noreturn]] void fail_without_documents(const TokenSource& source, std::int64_t bos_id);

}  // namespace tg
