#include "data/feeder.h"

#include <c10/core/StreamGuard.h>

#include "base/elapsed.h"
#include "base/log.h"

namespace tg {

AllocateBatch batch_allocator(at::Device device) {
  if (!device.is_cuda()) return allocate_on_heap;
  return [](std::int64_t bytes) {
    const auto pinned = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
    auto* const data = static_cast<std::byte*>(pinned.mutable_data_ptr());
    return BatchBuffer(data, [pinned](std::byte*) {});  // the deleter owns the tensor
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
  for (auto& transfer : transfers_)
    require_staging(transfer, ids_.numel() * static_cast<std::int64_t>(sizeof(NarrowId)));
  if (copy_stream) copy_stream_ = stream_from_pool(device);
}

DeviceBatch Feeder::next() {
  wait_for_room();
  Transfer& transfer = next_transfer();
  ++batches_;
  const auto asked = Clock::now();
  const bool has_batch = source_->next(transfer.host);
  waited_ms_ += milliseconds_since(asked);
  const HostBatch& batch = transfer.host;
  if (!has_batch)
    return {.inputs = {}, .targets = {}, .text_bytes = 0, .batch_index = batch.batch_index};

  const SpanScope span(spans_, "copy", batch.batch_index);
  const auto compute = compute_stream(device_);
  const auto host = at::from_blob(transfer.host.buffer.get(), {batch.stored()}, at::kByte);
  if (device_.is_cuda()) {
    require_staging(transfer, batch.stored());
    copy_to_gpu(transfer, host);
    transfer.copied.block(compute);
    widen(batch, transfer.staging);
    transfer.widened.record(compute);
  } else {
    Event began(compute);
    widen(batch, host);
    if (times_copies_) copy_times_.emplace_back(std::move(began), Event(compute));
  }
  return {.inputs = ids_.narrow(0, 0, batch.tokens - 1).view({-1, batch.seq_len}),
          .targets = ids_.narrow(0, 1, batch.tokens - 1).view({-1, batch.seq_len}),
          .segments = segments_,
          .longest_segment = batch.longest_segment,
          .text_bytes = batch.text_bytes,
          .batch_index = batch.batch_index};
}

void Feeder::require_staging(Transfer& transfer, std::int64_t size) {
  if (transfer.staging.defined() && transfer.staging.numel() >= size) return;
  // The caching allocator may return memory that work on this stream still uses.
  transfer.staging = at::empty({size}, ids_.options().dtype(at::kByte));
  transfer.widened.record(compute_stream(device_));
}

// `stored` is the batch's buffer, or its copy on the device.
void Feeder::widen(const HostBatch& batch, const at::Tensor& stored) {
  const auto type = batch.id_bytes == sizeof(NarrowId) ? at::kUInt16 : at::kUInt32;
  ids_.narrow(0, 0, batch.tokens)
      .copy_(stored.narrow(0, 0, batch.tokens * batch.id_bytes).view(type));
  if (batch.segment_capacity > 0) take_segments(batch, stored);
}

void Feeder::take_segments(const HostBatch& batch, const at::Tensor& stored) {
  const auto size = batch.segment_capacity + 1;
  const bool any = segments_.defined();
  if (!any || segments_.numel() < size) {
    if (any) {
      log_info("segments: a batch has {}, and room for {} grows to {}", batch.segments,
               segments_.numel() - 1, batch.segment_capacity);
    }
    segments_ = at::empty({size}, ids_.options().dtype(at::kInt));
  }
  segments_.narrow(0, 0, size)
      .copy_(stored.narrow(0, batch.boundaries_begin(), 4 * size).view(at::kInt));
  // The buffer may be smaller than segments_, which another buffer's batch has grown.
  const auto rest = segments_.numel() - size;
  if (rest > 0) segments_.narrow(0, size, rest).fill_(batch.tokens - 1);
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
