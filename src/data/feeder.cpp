#include "data/feeder.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tg {

namespace {

// Two bytes a token over the bus; LibTorch has few operations on uint16, so they travel as int16.
DeviceBatch copy_and_widen(std::span<const std::uint16_t> tokens, std::int64_t seq_len,
                           at::Device device, bool non_blocking) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto host = at::from_blob(const_cast<std::uint16_t*>(tokens.data()), {count}, at::kShort);
  const auto ids = host.to(device, at::kShort, non_blocking).to(at::kLong).bitwise_and_(0xffff);
  return {ids.narrow(0, 0, count - 1).view({-1, seq_len}),
          ids.narrow(0, 1, count - 1).view({-1, seq_len})};
}

}  // namespace

DeviceBatch to_device(std::span<const std::uint16_t> tokens, std::int64_t seq_len,
                      at::Device device) {
  return copy_and_widen(tokens, seq_len, device, /*non_blocking=*/false);
}

AllocateTokens token_allocator(at::Device device) {
  if (!device.is_cuda()) return allocate_on_heap;
  return [](std::int64_t tokens) {
    const auto pinned = at::empty({tokens}, at::TensorOptions(at::kShort).pinned_memory(true));
    auto* const data = reinterpret_cast<std::uint16_t*>(pinned.mutable_data_ptr());
    return TokenBuffer(data, [pinned](std::uint16_t*) {});  // the deleter keeps the tensor
  };
}

Feeder::Feeder(std::unique_ptr<BatchSource> source, at::Device device, bool copy_stream)
    : source_(std::move(source)),
      device_(device),
      flights_{Flight{{}, c10::Event(device.type())}, Flight{{}, c10::Event(device.type())}} {
  if (copy_stream && device.is_cuda()) {
    copy_stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

DeviceBatch Feeder::next() {
  Flight& flight = flights_[flown_++ % flights_.size()];
  flight.copied.synchronize();
  if (!source_->next(flight.host)) return {};
  const std::span<const std::uint16_t> tokens(flight.host.buffer.get(),
                                              static_cast<std::size_t>(flight.host.tokens));
  if (!device_.is_cuda()) return to_device(tokens, flight.host.seq_len, device_);

  const auto compute = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto copying = copy_stream_.value_or(compute);
  const c10::StreamGuard guard(copying);
  auto batch = copy_and_widen(tokens, flight.host.seq_len, device_, /*non_blocking=*/true);
  flight.copied.record(copying);
  if (copy_stream_) {
    flight.copied.block(compute);
    // The copy stream's memory must not go to a later batch while this one is still read.
    batch.inputs.record_stream(compute);
  }
  return batch;
}

}  // namespace tg
