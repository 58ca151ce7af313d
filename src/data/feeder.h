#pragma once
// Copies host tokens to tensors on the device. The one part of data/ that uses LibTorch.
#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "device/event.h"

namespace tg {

// Inputs and targets [B, T] int64 on the device; undefined if the rank has no micro-batch in this
// round. They are views of the feeder's memory, at the same address each time, and valid until its
// next batch. `segments`: where attention's segments of the flattened inputs begin, ascending, then
// B * T, their end, up to its size [capacity + 1] int32; undefined without a SegmentRule. A batch
// with more segments than the capacity, and all later ones, have a larger tensor at another
// address. None has more than `longest_segment` tokens.
struct DeviceBatch {
  at::Tensor inputs, targets;
  at::Tensor segments{};
  std::int64_t longest_segment = 0;
  std::int64_t text_bytes = 0;   // see HostBatch
  std::int64_t batch_index = 0;  // see HostBatch
};

// Allocates host memory that the device can copy from asynchronously: pinned for a GPU, else heap.
AllocateTokens token_allocator(at::Device device);

// The source of a step's batches.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Errors: those of reading (bad_data, missing_input, io).
  virtual DeviceBatch next() = 0;
  // Blocks until the device has copied the batch whose host memory next() reuses, that is for work
  // on the compute stream, not for tokens. Optional: next() does the same.
  virtual void wait_for_room() {}
  // Total time that next() waited for tokens.
  virtual double waited_ms() const { return 0; }

  using CopyTime = std::pair<Event, Event>;  // a copy's begin and end
  virtual void time_copies(bool) {}
  // The copies since the last call, in order.
  virtual std::vector<CopyTime> take_copy_times() { return {}; }
};

// Copies a source's micro-batches to the device, for use on the current stream. On a GPU the host
// does not wait for the copy. With `copy_stream` the copy runs on a stream of its own, concurrently
// with work queued before it. A token is 2 bytes on the bus and is widened to int64 on the device.
class Feeder final : public BatchFeed {
 public:
  // `spans` receives a span per copy; may be null.
  Feeder(std::unique_ptr<BatchSource> source, at::Device device, bool copy_stream,
         SpanLog* spans = nullptr);

  DeviceBatch next() override;
  void wait_for_room() override { next_transfer().copied.synchronize(); }
  double waited_ms() const override { return waited_ms_; }
  void time_copies(bool on) override { times_copies_ = on; }
  std::vector<CopyTime> take_copy_times() override { return std::exchange(copy_times_, {}); }
  LoaderState state() const { return source_->state(); }
  void restore(const LoaderState& state) { source_->restore(state); }
  // See BatchSource.
  void reshape(const BatchShape& shape) { source_->reshape(shape); }

 private:
  // One of two batches in transfer. The host buffer is reused after `copied`, the device's after
  // `widened`, which require_staging() records behind earlier uses of its memory.
  struct Transfer {
    HostBatch host;
    at::Tensor staging;  // uint16 on a GPU, for HostBatch::stored(); undefined on a CPU
    c10::Event copied, widened;
  };

  Transfer& next_transfer() { return transfers_[batches_ % transfers_.size()]; }
  bool fetch(HostBatch& batch);
  void require_staging(Transfer& transfer, std::int64_t size);
  void copy_to_gpu(Transfer& transfer, const at::Tensor& host);
  void widen(const HostBatch& batch, const at::Tensor& stored);
  void take_segments(const HostBatch& batch, const at::Tensor& stored);

  std::unique_ptr<BatchSource> source_;
  at::Device device_;
  std::optional<c10::Stream> copy_stream_;
  SpanLog* spans_;
  std::array<Transfer, 2> transfers_;
  std::size_t batches_ = 0;  // so far; batch n uses transfers_[n % 2]
  at::Tensor ids_;           // [span] int64
  at::Tensor segments_;      // DeviceBatch::segments
  double waited_ms_ = 0;
  bool times_copies_ = false;
  std::vector<CopyTime> copy_times_;
};

}  // namespace tg
