#include "data/training_order.h"

#include "config/derived.h"

namespace tg {

std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size) {
  const auto longest = micro_batch_tokens(settings, world_size);
  std::unique_ptr<TokenOrder> order;
  if (settings.data.loader_order == LoaderOrder::stream) {
    order = std::make_unique<StreamOrder>(tokens, longest, micro_batches(settings, world_size),
                                          rank, world_size);
  } else {
    // The speedrun's reference implementation trains on its first micro-batch twice.
    order = std::make_unique<StridedOrder>(tokens, longest, rank, world_size,
                                           settings.runtime.record_quirks);
  }
  order->resize(batch_shape(settings, world_size, {}).tokens);
  return order;
}

}  // namespace tg
