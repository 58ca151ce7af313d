#pragma once
#include <optional>

#include "data/feeder.h"
#include "device/captured_graph.h"
#include "model/gpt.h"
#include "ops/attention/documents.h"

namespace tg {

// The segments of a batch's rows, which attention does not cross; none where it has none. Its work
// can be captured.
inline std::optional<Documents> documents_of(const DeviceBatch& batch) {
  if (!batch.segments.defined()) return {};
  return documents_at(batch.segments, batch.inputs.size(0), batch.inputs.size(1),
                      batch.longest_segment);
}

// Forward and backward pass of a micro-batch, in one or several parts of as many sequences; its
// gradients are added to the parameters'.
class MicroStep {
 public:
  // `mode.scale`: this micro-batch's weight in the step's loss; `device`, `graphs`: see
  // CapturedGraph.
  MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs);

  // From now on a batch is computed in `parts` of its rows, which they must divide.
  void set_parts(std::int64_t parts);
  std::int64_t parts() const { return parts_; }

  // Returns the part's contribution to the mean loss times mode.scale, [] fp32, valid until the
  // next forward pass. All batches have one address and one shape.
  at::Tensor forward(const DeviceBatch& batch, std::int64_t part = 0);
  void backward() { passes_.run(1); }
  // See CapturedGraph: `form` is a form of the model's computation.
  void select(std::int64_t form) { passes_.select(form); }
  // To be called when the model's computation changes for good, as when QAT begins.
  void invalidate();
  std::int64_t captures() const { return passes_.captures(); }

 private:
  void take_part(const DeviceBatch& whole, std::int64_t part);

  CapturedGraph passes_;
  std::int64_t parts_ = 1;
  DeviceBatch batch_;   // what the passes read: the whole, or at an address of its own a part of it
  at::Tensor history_;  // the loss of the forward pass, until the backward pass
  at::Tensor loss_;     // the same without its history, at one address
};

}  // namespace tg
