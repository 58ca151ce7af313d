#include "train/train_step.h"

#include <utility>

namespace tg {

DeviceBatch TrainStep::next_batch() {
  const auto phase = phases_.enter(Phase::batch);
  return feed_.next();
}

void TrainStep::refresh_weights(bool fake_quant) {
  const auto phase = phases_.enter(Phase::optimizer);
  // The rounding of small matrices is part of what was recorded.
  if (std::exchange(fake_quant_, fake_quant) != fake_quant) micro_step_.forget();
  model_.refresh_weights(fake_quant);
}

at::Tensor TrainStep::forward(const DeviceBatch& batch) {
  const auto phase = phases_.enter(Phase::forward, batch.number);
  return micro_step_.forward(batch);
}

void TrainStep::backward() {
  const auto phase = phases_.enter(Phase::backward);
  micro_step_.backward();
}

at::Tensor TrainStep::accumulate_gradients() {
  auto mean_loss = at::zeros({}, at::TensorOptions(device_).dtype(at::kFloat));
  for (std::int64_t i = 0; i < micro_batches_; i += communicator_.world_size()) {
    const auto batch = next_batch();
    if (!batch.inputs.defined()) continue;  // the last round may have fewer than ranks
    mean_loss += forward(batch);
    backward();
  }
  return mean_loss;
}

at::Tensor TrainStep::run(const StepPlan& plan) {
  const auto scalar = [&](double value) {
    return at::full({}, value, at::TensorOptions(device_).dtype(at::kFloat));
  };
  communicator_.take_wait_times();  // of what was between the steps
  refresh_weights(plan.fake_quant);
  // Sums over ranks: what rank 0 alone contributes is its word for all.
  const double mine = communicator_.rank() == 0 ? 1 : 0;
  const auto numbers = at::stack(
      {accumulate_gradients(), scalar(mine * plan.lr_scale), scalar(mine * plan.elapsed_ms)});
  at::Tensor norm, skip;
  {
    const auto phase = phases_.enter(Phase::grad_clip);
    model_.collect_gradients();
    norm = optimizer_.reduce(numbers, plan.clip_norm);
    skip = (numbers[0] + norm).isfinite().logical_not().to(at::kFloat);
  }
  phases_.add_waits(Phase::grad_clip, communicator_.take_wait_times());
  {
    const auto phase = phases_.enter(Phase::optimizer);
    optimizer_.step({.lr_scale = numbers[1], .momentum = scalar(plan.momentum), .skip = skip});
    optimizer_.zero_gradients();
  }
  micro_step_.step_done();
  phases_.add_waits(Phase::optimizer, communicator_.take_wait_times());
  return at::stack({numbers[0], norm, skip, numbers[1], numbers[2]});
}

}  // namespace tg
