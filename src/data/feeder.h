#pragma once
// Copies host tokens to tensors on the device. The only part of data/ that uses LibTorch.
#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "device/event.h"

namespace tg {

// Micro-batch on the device. Inputs and targets are [B, T] int64, undefined if the rank has no
// micro-batch in this round. They are views of the feeder's memory, always at the same address, and
// valid until the feeder's next batch. `segments` [capacity + 1] int32 has the ascending start
// offsets of attention's segments in the flattened inputs (cu_seqlens), padded with B * T;
// undefined without a SegmentRule. A batch with more segments than the capacity replaces it by a
// larger tensor at another address, also for later batches. No segment is longer than
// `longest_segment` tokens.
struct DeviceBatch {
  at::Tensor inputs, targets;
  at::Tensor segments{};
  std::int64_t longest_segment = 0;
  std::int64_t text_bytes = 0;   // see HostBatch
  std::int64_t batch_index = 0;  // see HostBatch
};

// Allocates host memory that the device can copy from asynchronously: pinned for a GPU, else heap.
AllocateBatch batch_allocator(at::Device device);

// Source of a step's batches.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Throws what reading throws (bad_data, missing_input, io).
  virtual DeviceBatch next() = 0;
  // Blocks until the device has copied the batch whose host memory next() reuses: waits for the
  // compute stream, not for tokens. Optional, since next() does so too.
  virtual void wait_for_room() {}
  // Returns the total time that next() waited for tokens.
  virtual double waited_ms() const { return 0; }

  using CopyTime = std::pair<Event, Event>;  // begin and end of a copy
  virtual void time_copies(bool) {}
  // Returns the copies since the last call, in order.
  virtual std::vector<CopyTime> take_copy_times() { return {}; }
};

// Copies a source's micro-batches to the device, for use on the current stream. On a GPU the host
// does not wait for the copy. With `copy_stream` the copy runs on a separate stream, concurrently
// with previously queued work. A token has its source's id_bytes() on the bus and is widened to
// int64 on the device.
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
  // Calls BatchSource::reshape().
  void reshape(const BatchShape& shape) { source_->reshape(shape); }

 private:
  // One of two batches in transfer. The host buffer is reused after `copied`, the device buffer
  // after `widened`, which require_staging() records after earlier uses of its memory.
  struct Transfer {
    HostBatch host;
    at::Tensor staging;  // uint8 on a GPU, for HostBatch::stored(); undefined on a CPU
    c10::Event copied, widened;
  };

  Transfer& next_transfer() { return transfers_[batches_ % transfers_.size()]; }
  void require_staging(Transfer& transfer, std::int64_t size);
  void copy_to_gpu(Transfer& transfer, const at::Tensor& host);
  void widen(const HostBatch& batch, const at::Tensor& stored);
  void take_segments(const HostBatch& batch, const at::Tensor& stored);

  std::unique_ptr<BatchSource> source_;
  at::Device device_;
  std::optional<c10::Stream> copy_stream_;
  SpanLog* spans_;
  std::array<Transfer, 2> transfers_;
  std::size_t batches_ = 0;  // batch n uses transfers_[n % 2]
  at::Tensor ids_;           // [span] int64
  at::Tensor segments_;      // DeviceBatch::segments
  double waited_ms_ = 0;
  bool times_copies_ = false;
  std::vector<CopyTime> copy_times_;
};

}  // namespace tg
