#pragma once
// Which tokens of the training split a rank trains on.
#include <memory>

#include "config/settings.h"
#include "data/token_order.h"

namespace tg {

// LOADER_ORDER's, in micro-batches of micro_batch_tokens(). `tokens` must outlive it. Errors: those
// of StridedOrder.
std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size);

}  // namespace tg
