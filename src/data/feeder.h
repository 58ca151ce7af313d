#pragma once
// From host tokens to tensors on the device. This is the one file of data/ that knows LibTorch.
#include <ATen/ATen.h>

#include <memory>

#include "data/batch.h"

namespace tg {

// Inputs and targets [B, T] int64 on the device; undefined where the rank has no micro-batch this
// round.
struct DeviceBatch {
  at::Tensor inputs, targets;
  bool empty() const { return !inputs.defined(); }
};

// Tokens [count·seq_len + 1] → the batch, whose targets are its inputs one token later.
DeviceBatch to_device(std::span<const std::uint16_t> tokens, std::int64_t seq_len,
                      at::Device device);

// Hands a source's micro-batches to the model.
class Feeder {
 public:
  Feeder(std::unique_ptr<BatchSource> source, at::Device device)
      : source_(std::move(source)), device_(device) {}

  // Errors: those of reading (bad_data, io).
  DeviceBatch next();
  LoaderState state() const { return source_->state(); }
  void restore(const LoaderState& state) { source_->restore(state); }

 private:
  std::unique_ptr<BatchSource> source_;
  at::Device device_;
  HostBatch batch_;
};

}  // namespace tg
