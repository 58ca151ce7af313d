#pragma once
// From host tokens to tensors on the device. This is the one file of data/ that knows LibTorch.
#include <ATen/ATen.h>

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "data/batch.h"

namespace tg {

// Inputs and targets [B, T] int64 on the device; undefined where the rank has no micro-batch this
// round.
struct DeviceBatch {
  at::Tensor inputs, targets;
};

// Tokens [count·seq_len + 1] → the batch, whose targets are its inputs one token later. Waits for
// the copy.
DeviceBatch to_device(std::span<const std::uint16_t> tokens, std::int64_t seq_len,
                      at::Device device);

// Host memory that the device copies from without the host's help: pinned for a GPU, else the heap.
AllocateTokens token_allocator(at::Device device);

// Hands a source's micro-batches to the model, on the stream that is current at the call. On a GPU
// the host never waits for a copy, and with `copy_stream` neither does the work before it: the copy
// of the next batch then runs beside it, on a stream of its own.
class Feeder {
 public:
  Feeder(std::unique_ptr<BatchSource> source, at::Device device, bool copy_stream);

  // Errors: those of reading (bad_data, io).
  DeviceBatch next();
  LoaderState state() const { return source_->state(); }
  void restore(const LoaderState& state) { source_->restore(state); }

 private:
  // A host buffer stays out of the source's hands until its copy is done.
  struct Flight {
    HostBatch host;
    c10::Event copied;
  };

  std::unique_ptr<BatchSource> source_;
  at::Device device_;
  std::optional<c10::Stream> copy_stream_;
  std::array<Flight, 2> flights_;
  std::size_t flown_ = 0;
};

}  // namespace tg
