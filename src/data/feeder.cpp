#include "data/feeder.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace tg {

AllocateTokens token_allocator(at::Device device) {
  if (!device.is_cuda()) return allocate_on_heap;
  return [](std::int64_t tokens) {
    const auto pinned = at::empty({tokens}, at::TensorOptions(at::kUInt16).pinned_memory(true));
    auto* const data = static_cast<std::uint16_t*>(pinned.mutable_data_ptr());
    return TokenBuffer(data, [pinned](std::uint16_t*) {});  // the deleter keeps the tensor
  };
}

Feeder::Feeder(std::unique_ptr<BatchSource> source, at::Device device, bool copy_stream,
               SpanLog* spans)
    : source_(std::move(source)),
      device_(device),
      spans_(spans),
      flights_{Flight{{}, {}, c10::Event(device.type()), c10::Event(device.type())},
               Flight{{}, {}, c10::Event(device.type()), c10::Event(device.type())}},
      ids_(at::empty({source_->span_tokens()}, at::TensorOptions(device).dtype(at::kLong))) {
  if (!device.is_cuda()) return;
  const auto compute = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  for (auto& flight : flights_) {
    // The allocator may hand out memory that this stream still works on.
    flight.staging = at::empty_like(ids_, at::kUInt16);
    flight.widened.record(compute);
  }
  if (copy_stream) {
    copy_stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

bool Feeder::fetch(HostBatch& batch) {
  const auto began = std::chrono::steady_clock::now();
  const bool mine = source_->next(batch);
  const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - began;
  waited_ms_ += waited.count();
  return mine;
}

DeviceBatch Feeder::next() {
  wait_for_room();
  Flight& flight = flights_[flown_++ % flights_.size()];
  const bool mine = fetch(flight.host);
  const HostBatch& batch = flight.host;
  if (!mine) return {.inputs = {}, .targets = {}, .text_bytes = 0, .number = batch.number};

  const SpanScope span(spans_, "copy", batch.number);
  const auto compute = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto host = at::from_blob(flight.host.buffer.get(), {batch.tokens}, at::kUInt16);
  const auto ids = ids_.narrow(0, 0, batch.tokens);
  if (device_.is_cuda()) {
    copy_to_gpu(flight, host);
    flight.copied.block(compute);
    ids.copy_(flight.staging.narrow(0, 0, batch.tokens));
    flight.widened.record(compute);
  } else {
    Moment began(compute);
    ids.copy_(host);
    if (times_copies_) copy_times_.emplace_back(std::move(began), Moment(compute));
  }
  return {.inputs = ids.narrow(0, 0, batch.tokens - 1).view({-1, batch.seq_len}),
          .targets = ids.narrow(0, 1, batch.tokens - 1).view({-1, batch.seq_len}),
          .text_bytes = batch.text_bytes,
          .number = batch.number};
}

void Feeder::copy_to_gpu(Flight& flight, const at::Tensor& host) {
  const auto compute = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  const auto copying = copy_stream_.value_or(compute);
  const c10::StreamGuard guard(copying);
  flight.widened.block(copying);
  std::optional<Moment> began;
  if (times_copies_) began.emplace(copying);
  flight.staging.narrow(0, 0, host.numel()).copy_(host, /*non_blocking=*/true);
  flight.copied.record(copying);
  if (began) copy_times_.emplace_back(std::move(*began), Moment(copying));
}

}  // namespace tg
