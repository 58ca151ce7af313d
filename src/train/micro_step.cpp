#include "train/micro_step.h"

#include "base/log.h"

namespace tg {

void MicroStep::run_forward(const DeviceBatch& batch) {
  loss_ = model_.loss(batch.inputs, batch.targets, {.training = true, .scale = share_});
}

void MicroStep::run_backward() {
  loss_.backward();
  loss_ = loss_.detach();
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

void MicroStep::backward() {
  graphs_.recorded() ? graphs_.replay(1) : run_backward();
}

void MicroStep::record(const DeviceBatch& batch) {
  const auto obstacle = graphs_.record({[&] { run_forward(batch); }, [&] { run_backward(); }});
  if (obstacle.empty()) return;
  records_ = false;
  log_warn(
      "the step cannot be captured as CUDA graphs ({}); every kernel is launched on its own, "
      "as with GRAPHS=0",
      obstacle);
}

void MicroStep::forget() {
  loss_ = at::Tensor();  // which may lie in their memory
  graphs_.forget();
  steps_done_ = 0;
}

}  // namespace tg
