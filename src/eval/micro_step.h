#pragma once
#include "data/feeder.h"
#include "device/captured_graph.h"
#include "model/gpt.h"

namespace tg {

// Forward and backward pass of a micro-batch; its gradients are added to the parameters'.
class MicroStep {
 public:
  // `mode.scale`: this micro-batch's share in the step's loss; `device`, `graphs`: see
  // CapturedGraph.
  MicroStep(Gpt& model, const ForwardMode& mode, at::Device device, bool graphs);

  // → the mean loss times mode.scale, [] fp32, valid until any graph is replayed. All batches have
  // one address and one shape.
  at::Tensor forward(const DeviceBatch& batch);
  void backward() { passes_.run(1); }
  // To be called when the model's computation changes, as when QAT begins.
  void invalidate();

 private:
  CapturedGraph passes_;
  DeviceBatch batch_;
  at::Tensor loss_;  // of the last forward pass, with its history until the backward pass
};

}  // namespace tg
