#include "train/micro_step.h"

#include "base/log.h"

namespace tg {

void MicroStep::run_forward(const DeviceBatch& batch) {
  states_ = model_.final_states(batch.inputs);
  leaf_ = states_.detach().requires_grad_();
  loss_ = model_.head_loss(leaf_, batch.targets, {.training = true, .scale = share_});
}

void MicroStep::run_backward_heads() {
  loss_.backward();
  loss_ = loss_.detach();
}

void MicroStep::run_backward_blocks() {
  states_.backward(leaf_.grad());
  states_ = leaf_ = at::Tensor();
}

at::Tensor MicroStep::forward(const DeviceBatch& batch) {
  if (records_ && steps_done_ > 0 && !graphs_.recorded()) record(batch);
  if (graphs_.recorded()) {
    graphs_.replay(0);
  } else {
    run_forward(batch);
  }
  return loss_.detach();
}

void MicroStep::backward_heads() {
  graphs_.recorded() ? graphs_.replay(1) : run_backward_heads();
}

void MicroStep::backward_blocks() {
  graphs_.recorded() ? graphs_.replay(2) : run_backward_blocks();
}

void MicroStep::record(const DeviceBatch& batch) {
  const auto obstacle = graphs_.record(
      {[&] { run_forward(batch); }, [&] { run_backward_heads(); }, [&] { run_backward_blocks(); }});
  if (obstacle.empty()) return;
  records_ = false;
  log_warn(
      "the step cannot be captured as CUDA graphs ({}); every kernel is launched on its own, "
      "as with GRAPHS=0",
      obstacle);
}

void MicroStep::forget() {
  graphs_.forget();
  steps_done_ = 0;
}

}  // namespace tg
