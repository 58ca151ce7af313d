#include "data/training_order.h"

#include "config/derived.h"

namespace tg {

std::unique_ptr<TokenOrder> make_training_order(const Settings& settings, const TokenSource& tokens,
                                                int rank, int world_size) {
  const auto length = micro_batch_tokens(settings, world_size);
  if (settings.data.loader_order == LoaderOrder::stream) {
    return std::make_unique<StreamOrder>(tokens, length, micro_batches(settings, world_size), rank,
                                         world_size);
  }
  const auto seq_len = settings.run.train_seq_len;
  // The speedrun's reference implementation trains on its first micro-batch twice.
  return std::make_unique<StridedOrder>(tokens, length / seq_len, seq_len, rank, world_size,
                                        settings.runtime.record_quirks);
}

}  // namespace tg
