#include "train/train_step.h"

#include <utility>

namespace tg {

TrainStep::TrainStep(Gpt& model, Optimizer& optimizer, BatchFeed& feed, PhaseRecorder& phases,
                     Communicator& communicator, std::int64_t micro_batches, at::Device device,
                     bool graphs)
    : model_(model),
      optimizer_(optimizer),
      feed_(feed),
      phases_(phases),
      communicator_(communicator),
      micro_batches_(micro_batches),
      micro_step_(model, 1.0 / static_cast<double>(micro_batches), device, graphs),
      once_a_step_("the update",
                   {[this] { model_.cast_weights(); }, [this] { reduce_gradients(); },
                    [this] { update_weights(); }},
                   device, graphs && communicator.world_size() == 1),
      numbers_(at::zeros({2}, at::TensorOptions(device).dtype(at::kFloat))),
      lr_scale_(at::zeros({}, numbers_.options())),
      momentum_(at::zeros({}, numbers_.options())) {}

DeviceBatch TrainStep::next_batch() {
  const auto phase = phases_.enter(Phase::batch);
  // Outside the announced work: where a collective stands still, it waits for another rank.
  feed_.wait_for_room();
  const PeerWatch::Work reading(communicator_.watch(), "reading tokens");
  return feed_.next();
}

// Sets what the captured graphs depend on, and invalidates those that no longer match.
void TrainStep::set(const StepPlan& plan) {
  const bool other_rounding = std::exchange(fake_quant_, plan.fake_quant) != plan.fake_quant;
  const bool other_clipping = std::exchange(clip_norm_, plan.clip_norm) != plan.clip_norm;
  if (other_rounding) micro_step_.invalidate();
  if (other_rounding || other_clipping) once_a_step_.invalidate();
  model_.set_fake_quant(fake_quant_);
}

void TrainStep::cast_weights() {
  const auto phase = phases_.enter(Phase::optimizer);
  once_a_step_.run(cast);
}

at::Tensor TrainStep::forward(const DeviceBatch& batch) {
  const auto phase = phases_.enter(Phase::forward, batch.batch_index);
  return micro_step_.forward(batch);
}

void TrainStep::backward() {
  const auto phase = phases_.enter(Phase::backward);
  micro_step_.backward();
}

at::Tensor TrainStep::accumulate_gradients() {
  auto mean_loss = at::zeros_like(momentum_);
  for (std::int64_t i = 0; i < micro_batches_; i += communicator_.world_size()) {
    const auto batch = next_batch();
    if (!batch.inputs.defined()) continue;  // the last round may have fewer than ranks
    mean_loss += forward(batch);
    backward();
    communicator_.progress();
  }
  return mean_loss;
}

void TrainStep::reduce_gradients() {
  model_.collect_gradients();
  norm_ = optimizer_.reduce(numbers_, clip_norm_);
  skip_ = (numbers_[0] + norm_).isfinite().logical_not().to(at::kFloat);
}

void TrainStep::update_weights() {
  optimizer_.step({.lr_scale = lr_scale_, .momentum = momentum_, .skip = skip_});
  optimizer_.zero_gradients();
}

at::Tensor TrainStep::run(const StepPlan& plan) {
  const auto scalar = [&](double value) { return at::full({}, value, numbers_.options()); };
  communicator_.take_collective_waits();  // of what was between the steps
  set(plan);
  cast_weights();
  // The sum over ranks broadcasts what rank 0 alone contributes.
  const double clock_ms = communicator_.rank() == 0 ? plan.clock_ms : 0;
  numbers_.copy_(at::stack({accumulate_gradients(), scalar(clock_ms)}));
  lr_scale_.fill_(plan.lr_scale);
  momentum_.fill_(plan.momentum);
  {
    const auto phase = phases_.enter(Phase::grad_clip);
    once_a_step_.run(reduce);
  }
  phases_.add_waits(Phase::grad_clip, communicator_.take_collective_waits());
  {
    const auto phase = phases_.enter(Phase::optimizer);
    once_a_step_.run(update);
  }
  phases_.add_waits(Phase::optimizer, communicator_.take_collective_waits());
  return at::stack({numbers_[0], norm_, skip_, numbers_[1]});
}

}  // namespace tg
