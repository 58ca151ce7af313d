#pragma once
// From host tokens to tensors on the device. With moment.h, what data/ has to do with LibTorch.
#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "device/moment.h"

namespace tg {

// Inputs and targets [B, T] int64 on the device, undefined where the rank has no micro-batch this
// round. They lie in the feeder's own memory, at the same address each time: good until its next
// batch.
struct DeviceBatch {
  at::Tensor inputs, targets;
  std::int64_t text_bytes = 0;  // see HostBatch
  std::int64_t number = 0;
};

// Host memory that the device copies from without the host's help: pinned for a GPU, else the heap.
AllocateTokens token_allocator(at::Device device);

// Where batches come from, as a step sees it.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // Errors: those of reading (bad_data, missing_input, io).
  virtual DeviceBatch next() = 0;
  // Waits until the device has copied a batch whose host memory next() needs; it does the same
  // where nobody called this. The wait is for the work on the compute stream, not for tokens.
  virtual void wait_for_room() {}
  // What the host spent in next() until it had the tokens, in all.
  virtual double waited_ms() const { return 0; }

  using CopyTime = std::pair<Moment, Moment>;  // a copy's begin and end
  virtual void time_copies(bool) {}
  // Those since the last call, in order.
  virtual std::vector<CopyTime> take_copy_times() { return {}; }
};

// Hands a source's micro-batches to the model, on the stream that is current at the call. On a GPU
// the host never waits for a copy, and with `copy_stream` neither does the work before it: the copy
// of the next batch then runs beside it, on a stream of its own. Two bytes a token cross the bus.
class Feeder final : public BatchFeed {
 public:
  // `spans` is told of every copy and may be null.
  Feeder(std::unique_ptr<BatchSource> source, at::Device device, bool copy_stream,
         SpanLog* spans = nullptr);

  DeviceBatch next() override;
  void wait_for_room() override { flights_[flown_ % flights_.size()].copied.synchronize(); }
  double waited_ms() const override { return waited_ms_; }
  void time_copies(bool on) override { times_copies_ = on; }
  std::vector<CopyTime> take_copy_times() override { return std::exchange(copy_times_, {}); }
  LoaderState state() const { return source_->state(); }
  void restore(const LoaderState& state) { source_->restore(state); }

 private:
  // Events order the buffers both ways: the host's goes back to the source once `copied`, the
  // device's takes another copy once `widened`, and the first one once what used its memory before
  // is done.
  struct Flight {
    HostBatch host;
    at::Tensor staging;  // [span] uint16 on the device; the host's own tokens on a CPU
    c10::Event copied, widened;
  };

  bool fetch(HostBatch& batch);
  void copy_to_gpu(Flight& flight, const at::Tensor& host);

  std::unique_ptr<BatchSource> source_;
  at::Device device_;
  std::optional<c10::Stream> copy_stream_;
  SpanLog* spans_;
  std::array<Flight, 2> flights_;
  std::size_t flown_ = 0;
  at::Tensor ids_;  // [span] int64
  double waited_ms_ = 0;
  bool times_copies_ = false;
  std::vector<CopyTime> copy_times_;
};

}  // namespace tg
