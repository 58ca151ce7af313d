#pragma once
#include <optional>

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

// Forward and backward pass of a micro-batch, in one or several chunks of equally many sequences;
// accumulates gradients in the parameters.
class MicroStep {
 public:
  // `mode.scale`: this micro-batch's weight in the step's loss; `device`, `graphs`: see
  // CapturedGraph.
  MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs);

  // Splits batches into `parts` chunks of rows; `parts` must divide the number of rows.
  void set_parts(std::int64_t parts);
  std::int64_t parts() const { return parts_; }

  // Returns the chunk's contribution to the mean cross-entropy of the next tokens, times
  // mode.scale,
  // [] fp32, valid until the next forward pass. All batches must have one address and one shape.
  at::Tensor forward(const DeviceBatch& batch, std::int64_t part = 0);
  // With mode.further the chunk's contribution to the loss that backward() differentiates, in
  // forward()'s unit; else undefined.
  const at::Tensor& objective() const { return objective_; }
  void backward() { passes_.run(1); }
  // Selects a captured form of the model's computation; see CapturedGraph.
  void select(std::int64_t form) { passes_.select(form); }
  // Call it when the model's computation changes for good, as when QAT begins.
  void invalidate();
  std::int64_t captures() const { return passes_.captures(); }

 private:
  void take_part(const DeviceBatch& whole, std::int64_t part);

  CapturedGraph passes_;
  std::int64_t parts_ = 1;
  DeviceBatch batch_;  // input of the passes: the batch, or a copy of one chunk
  at::Tensor
      autograd_loss_;  // the forward pass's loss with its autograd graph, until the backward pass
  at::Tensor loss_, objective_;  // detached, at fixed addresses
};

}  // namespace tg
