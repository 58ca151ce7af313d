#include "train/train_step.h"

namespace tg {

DeviceBatch TrainStep::next_batch() {
  const auto phase = phases_.enter(Phase::batch);
  return feed_.next();
}

at::Tensor TrainStep::forward(const DeviceBatch& batch, bool fake_quant) {
  const auto phase = phases_.enter(Phase::forward, batch.number);
  return model_.loss(batch.inputs, batch.targets, {.training = true, .fake_quant = fake_quant});
}

void TrainStep::backward(const at::Tensor& loss) {
  const auto phase = phases_.enter(Phase::backward);
  loss.backward();
}

at::Tensor TrainStep::accumulate_gradients(bool fake_quant) {
  const double share = 1.0 / static_cast<double>(micro_batches_);
  auto mean_loss = at::zeros({}, at::TensorOptions(device_).dtype(at::kFloat));
  for (std::int64_t i = 0; i < micro_batches_; ++i) {
    const auto batch = next_batch();
    const auto loss = forward(batch, fake_quant);
    mean_loss += loss.detach() * share;
    backward(loss * share);
  }
  return mean_loss;
}

at::Tensor TrainStep::run(const StepPlan& plan) {
  const auto scalar = [&](double value) {
    return at::full({}, value, at::TensorOptions(device_).dtype(at::kFloat));
  };
  const auto loss = accumulate_gradients(plan.fake_quant);

  at::Tensor norm, skip;
  {
    const auto phase = phases_.enter(Phase::grad_clip);
    norm = optimizer_.gradient_norm();
    skip = (loss + norm).isfinite().logical_not().to(at::kFloat);
    if (plan.clip_norm > 0) optimizer_.clip(norm, plan.clip_norm);
  }
  const auto phase = phases_.enter(Phase::optimizer);
  optimizer_.step(
      {.lr_scale = scalar(plan.lr_scale), .momentum = scalar(plan.momentum), .skip = skip});
  optimizer_.zero_gradients();
  return at::stack({loss, norm, skip});
}

}  // namespace tg
