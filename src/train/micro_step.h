#pragma once
#include "data/feeder.h"
#include "model/gpt.h"
#include "train/gpu_graphs.h"

namespace tg {

// Forward and backward pass of a micro-batch, whose gradients are added to those that are there.
// With `graphs`, on a GPU, both are recorded as CUDA graphs once the first runs are over, and
// replayed.
class MicroStep {
 public:
  // `share`: of this micro-batch in the step's loss.
  MicroStep(Gpt& model, double share, bool graphs)
      : model_(model), share_(share), records_(graphs) {}

  // → the mean loss times share, [] fp32. Batches come at one address and in one shape.
  at::Tensor forward(const DeviceBatch& batch);
  void backward();

  // To call after each optimizer step: when all gradients are there, and stay where they are, the
  // next micro-step can be recorded.
  void step_done() { ++steps_done_; }
  // What was recorded is no longer what the model does.
  void forget();

 private:
  void run_forward(const DeviceBatch& batch);
  void run_backward();
  void record(const DeviceBatch& batch);

  Gpt& model_;
  double share_;
  bool records_;
  int steps_done_ = 0;
  GpuGraphs graphs_;
  at::Tensor loss_;  // of the last forward pass, with its history until the backward pass
};

}  // namespace tg
