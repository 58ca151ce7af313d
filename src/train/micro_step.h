#pragma once
#include "data/feeder.h"
#include "model/gpt.h"
#include "train/gpu_graphs.h"

namespace tg {

// Forward and backward pass of a micro-batch, whose gradients are added to those that are there.
// The backward pass is cut where the heads' gradients are complete: their reduction can begin
// there. With `graphs`, on a GPU, all three parts are recorded as CUDA graphs once the first runs
// are over, and replayed.
class MicroStep {
 public:
  // `share`: of this micro-batch in the step's loss.
  MicroStep(Gpt& model, double share, bool graphs)
      : model_(model), share_(share), records_(graphs) {}

  // → the mean loss times share, [] fp32. Batches come at one address and in one shape.
  at::Tensor forward(const DeviceBatch& batch);
  void backward_heads();
  void backward_blocks();

  // To call after each optimizer step: when all gradients are there, and stay where they are, the
  // next micro-step can be recorded.
  void step_done() { ++steps_done_; }
  // What was recorded is no longer what the model does.
  void forget();

 private:
  void run_forward(const DeviceBatch& batch);
  void run_backward_heads();
  void run_backward_blocks();
  void record(const DeviceBatch& batch);

  Gpt& model_;
  double share_;
  bool records_;
  int steps_done_ = 0;
  GpuGraphs graphs_;
  // Of the last forward pass: the blocks' output with its history; the same values as a leaf, from
  // which the heads' history begins; the loss.
  at::Tensor states_, leaf_, loss_;
};

}  // namespace tg
