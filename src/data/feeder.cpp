#include "data/feeder.h"

namespace tg {

DeviceBatch to_device(std::span<const std::uint16_t> tokens, std::int64_t seq_len,
                      at::Device device) {
  // Two bytes a token over the bus; LibTorch has few operations on uint16, so they travel as int16.
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto host = at::from_blob(const_cast<std::uint16_t*>(tokens.data()), {count}, at::kShort);
  const auto ids = host.to(device).to(at::kLong).bitwise_and_(0xffff);
  return {ids.narrow(0, 0, count - 1).view({-1, seq_len}),
          ids.narrow(0, 1, count - 1).view({-1, seq_len})};
}

DeviceBatch Feeder::next() {
  if (!source_->next(batch_)) return {};
  const std::span<const std::uint16_t> tokens(batch_.buffer.get(),
                                              static_cast<std::size_t>(batch_.tokens));
  return to_device(tokens, batch_.seq_len, device_);
}

}  // namespace tg
