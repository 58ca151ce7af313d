#pragma once
#include <optional>
#include <vector>

#include "data/feeder.h"
#include "device/captured_graph.h"
#include "model/gpt.h"
#include "ops/attention/documents.h"

namespace tg {

// Segments of a batch's rows, which attention does not cross; nullopt if there are none. Can be
// captured.
inline std::optional<Documents> documents_of(const DeviceBatch& batch) {
  if (!batch.segments.defined()) return {};
  return documents_at(batch.segments, batch.inputs.size(0), batch.inputs.size(1),
                      batch.longest_segment);
}

// What a pass takes: one of `parts` equal chunks of a micro-batch's rows, or `joined` micro-batches
// at once. One of the two is 1.
struct PassSize {
  std::int64_t parts = 1, joined = 1;
};

// Forward and backward pass of a micro-batch, of chunks of one or of several at once; accumulates
// gradients in the parameters.
class MicroStep {
 public:
  // `mode.scale`: a micro-batch's weight in the step's loss; `device`, `graphs`: see CapturedGraph.
  MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs);

  // `parts` must divide the number of rows. Discards micro-batches that were joined without a pass.
  void set_size(const PassSize& size);
  const PassSize& size() const { return size_; }

  // Copies a micro-batch to the next pass's rows; returns whether the pass has all of its
  // micro-batches, at once if it takes one.
  bool join(const DeviceBatch& batch);
  // Computes the chunk `part` of the batch, or the joined micro-batches, of which `batch` is the
  // last. Returns their contribution to the mean cross-entropy of the next tokens, times
  // mode.scale, [] fp32, valid until the next forward pass. All batches must have one address and
  // one shape.
  at::Tensor forward(const DeviceBatch& batch, std::int64_t part = 0);
  // With mode.further the contribution to the loss that backward() differentiates, in forward()'s
  // unit; else undefined.
  const at::Tensor& objective() const { return objective_; }
  void backward() { passes_.run(1); }
  // Selects a captured form of the model's computation; see CapturedGraph.
  void select(std::int64_t form) { passes_.select(form); }
  // Call it when the model's computation changes for good, as when QAT begins.
  void invalidate();
  std::int64_t captures() const { return passes_.captures(); }

 private:
  void take_part(const DeviceBatch& whole, std::int64_t part);
  void join_segments(const DeviceBatch& batch);
  // Attention's launches hold the longest segment.
  void require_longest_segment(const DeviceBatch& batch);

  CapturedGraph passes_;
  PassSize size_;
  std::int64_t taken_ = 0;          // joined micro-batches that await a pass
  std::vector<at::Tensor> starts_;  // of their segments, in the pass's rows
  DeviceBatch batch_;  // input of the passes: the batch, or a copy of a chunk or of several
  at::Tensor
      autograd_loss_;  // the forward pass's loss with its autograd graph, until the backward pass
  at::Tensor loss_, objective_;  // detached, at fixed addresses
};

}  // namespace tg
