#pragma once
// What the documents and aligned orders have in common.
#include <cstdint>

#include "data/token_order.h"

namespace tg {

// A step is M rows of L + 1 tokens, each a micro-batch, dealt in rounds that lie in one shard.
struct DocumentRows {
  std::int64_t tokens;    // L, the most
  std::int64_t of_step;   // M
  std::int64_t of_round;  // M or W; the last round of a step has what is left of it

  // The rows of the current round that are not dealt yet, behind `dealt` of the step.
  std::int64_t left_of_round(std::int64_t dealt) const;
  // Errors: config (a state that such an order cannot have on so many ranks).
  void require_possible(const LoaderState& state, std::int64_t world_size) const;
};

// Data in which BOS_ID=`bos_id` is nowhere. Errors: bad_data, always.
[[noreturn]] void fail_without_documents(const TokenSource& source, std::int64_t bos_id);

}  // namespace tg
