#include "train/train_step.h"

namespace tg {

at::Tensor TrainStep::accumulate_gradients(bool fake_quant) {
  const double share = 1.0 / static_cast<double>(micro_batches_);
  auto mean_loss = at::zeros({}, at::TensorOptions(device_).dtype(at::kFloat));
  for (std::int64_t i = 0; i < micro_batches_; ++i) {
    const auto batch = feeder_.next();
    const auto loss =
        model_.loss(batch.inputs, batch.targets, {.training = true, .fake_quant = fake_quant});
    mean_loss += loss.detach() * share;
    (loss * share).backward();
  }
  return mean_loss;
}

at::Tensor TrainStep::run(const StepPlan& plan) {
  const auto scalar = [&](double value) {
    return at::full({}, value, at::TensorOptions(device_).dtype(at::kFloat));
  };
  optimizer_.zero_gradients();
  const auto loss = accumulate_gradients(plan.fake_quant);

  const auto norm = optimizer_.gradient_norm();
  const auto skip = (loss + norm).isfinite().logical_not().to(at::kFloat);
  if (plan.clip_norm > 0) optimizer_.clip(norm, plan.clip_norm);
  optimizer_.step(
      {.lr_scale = scalar(plan.lr_scale), .momentum = scalar(plan.momentum), .skip = skip});
  return at::stack({loss, norm, skip});
}

}  // namespace tg
