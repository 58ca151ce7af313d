#include "data/feeder.h"

#include <c10/core/StreamGuard.h>

#include "base/elapsed.h"

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
      transfers_{Transfer{{}, {}, c10::Event(device.type()), c10::Event(device.type())},
                 Transfer{{}, {}, c10::Event(device.type()), c10::Event(device.type())}},
      ids_(at::empty({source_->span_tokens()}, at::TensorOptions(device).dtype(at::kLong))) {
  if (!device.is_cuda()) return;
  const auto compute = compute_stream(device);
  for (auto& transfer : transfers_) {
    // The caching allocator may return memory that work on this stream still uses.
    transfer.staging = at::empty_like(ids_, at::kUInt16);
    transfer.widened.record(compute);
  }
  if (copy_stream) {
    copy_stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

bool Feeder::fetch(HostBatch& batch) {
  const auto began = Clock::now();
  const bool mine = source_->next(batch);
  waited_ms_ += milliseconds_since(began);
  return mine;
}

DeviceBatch Feeder::next() {
  wait_for_room();
  Transfer& transfer = next_transfer();
  ++batches_;
  const bool mine = fetch(transfer.host);
  const HostBatch& batch = transfer.host;
  if (!mine)
    return {.inputs = {}, .targets = {}, .text_bytes = 0, .batch_index = batch.batch_index};

  const SpanScope span(spans_, "copy", batch.batch_index);
  const auto compute = compute_stream(device_);
  const auto host = at::from_blob(transfer.host.buffer.get(), {batch.tokens}, at::kUInt16);
  const auto ids = ids_.narrow(0, 0, batch.tokens);
  if (device_.is_cuda()) {
    copy_to_gpu(transfer, host);
    transfer.copied.block(compute);
    ids.copy_(transfer.staging.narrow(0, 0, batch.tokens));
    transfer.widened.record(compute);
  } else {
    Event began(compute);
    ids.copy_(host);
    if (times_copies_) copy_times_.emplace_back(std::move(began), Event(compute));
  }
  return {.inputs = ids.narrow(0, 0, batch.tokens - 1).view({-1, batch.seq_len}),
          .targets = ids.narrow(0, 1, batch.tokens - 1).view({-1, batch.seq_len}),
          .text_bytes = batch.text_bytes,
          .batch_index = batch.batch_index};
}

void Feeder::copy_to_gpu(Transfer& transfer, const at::Tensor& host) {
  const auto compute = compute_stream(device_);
  const auto copying = copy_stream_.value_or(compute);
  const c10::StreamGuard guard(copying);
  transfer.widened.block(copying);
  std::optional<Event> began;
  if (times_copies_) began.emplace(copying);
  transfer.staging.narrow(0, 0, host.numel()).copy_(host, /*non_blocking=*/true);
  transfer.copied.record(copying);
  if (began) copy_times_.emplace_back(std::move(*began), Event(copying));
}

}  // namespace tg
