#include "train/train_step.h"

#include <utility>

#include "base/stop_signal.h"
#include "device/gpu_memory.h"

namespace tg {

StepMetrics StepMetrics::from_tensor(const at::Tensor& metrics) {
  const auto* values = metrics.const_data_ptr<float>();
  return {.loss = values[0],
          .grad_norm = values[1],
          .skipped = values[2] != 0,
          .clock_ms = values[3],
          .stop = values[4] != 0,
          .loss_scale = values[5] != 0 ? std::optional<double>(values[5]) : std::nullopt,
          .objective = metrics.numel() > 6 ? std::optional<double>(values[6]) : std::nullopt};
}

TrainStep::TrainStep(Gpt& model, Optimizer& optimizer, BatchFeed& feed, PhaseRecorder& phases,
                     Communicator& communicator, std::int64_t micro_batches, at::Device device,
                     bool graphs, std::optional<FurtherTargets> further)
    : model_(model),
      optimizer_(optimizer),
      feed_(feed),
      phases_(phases),
      communicator_(communicator),
      micro_batches_(micro_batches),
      further_(std::move(further)),
      micro_step_(model,
                  {.auxiliary_losses = true,
                   .fp8 = true,
                   .scale = 1.0 / static_cast<double>(micro_batches),
                   .grad_scale = optimizer.grad_scale(),
                   .further = further_},
                  device, graphs),
      once_a_step_("the update",
                   {[this] { begin_step(); }, [this] { reduce_gradients(); },
                    [this] { clip_gradients(); }, [this] { update_weights(); }},
                   device, graphs && communicator.world_size() == 1),
      reduced_(at::zeros({further_ ? 4 : 3}, at::TensorOptions(device).dtype(at::kFloat))),
      lr_scale_(at::zeros({}, reduced_.options())),
      momentum_(at::zeros({}, reduced_.options())),
      norm_(at::zeros({}, reduced_.options())),
      skip_(at::zeros({}, reduced_.options())) {}

void TrainStep::begin_step() {
  model_.cast_weights();
  optimizer_.begin_step();
}

void TrainStep::reduce_gradients() {
  model_.collect_gradients();
  if (const auto& scales = model_.fp8_scales(); scales.defined())
    communicator_.max(scales.amax()).wait();
  optimizer_.reduce(reduced_, clip_norm_);
}

void TrainStep::clip_gradients() {
  norm_.copy_(optimizer_.clip(clip_norm_));
  const auto loss = further_ ? reduced_[3] : reduced_[0];
  skip_.copy_((loss + norm_).isfinite().logical_not());
}

void TrainStep::update_weights() {
  optimizer_.step({.lr_scale = lr_scale_, .momentum = momentum_, .skip = skip_});
  model_.fp8_scales().update();
}

at::Tensor TrainStep::run(const StepSchedule& plan) {
  set(plan);
  cast_weights();
  for (std::int64_t i = 0; i < micro_batches_; i += communicator_.world_size()) {
    const auto batch = next_batch();
    if (!batch.inputs.defined())
      continue;  // the last round may have fewer micro-batches than ranks
    run_passes(batch);
    communicator_.progress();
  }
  reduce(plan.clock_ms);
  const auto metrics = clip();  // before the update, which also changes the loss scale
  update(plan.state_copied);
  return metrics;
}

bool TrainStep::run_passes(const DeviceBatch& batch) {
  take_shape({.tokens = batch.inputs.numel(), .seq_len = batch.inputs.size(1)});
  if (!micro_step_.join(batch)) return false;
  for (std::int64_t part = 0; part < micro_step_.size().parts; ++part) {
    forward(batch, part);
    backward();
  }
  return true;
}

void TrainStep::set_pass_size(const BatchShape& shape, const PassSize& size) {
  pass_sizes_[{.tokens = shape.tokens, .seq_len = shape.seq_len}] = size;
  shape_ = {};
}

void TrainStep::take_shape(const BatchShape& shape) {
  if (shape == shape_) return;
  if (shape_ != BatchShape() && lr_scale_.is_cuda()) {
    // The first passes of a shape run outside the graphs' pool, which any graph would keep as large
    // as the last shape's.
    release_graphs();
    free_cached_gpu_memory();
  }
  shape_ = shape;
  micro_step_.set_size(pass_sizes_[shape]);
}

void TrainStep::release_graphs() {
  micro_step_.invalidate();
  once_a_step_.invalidate();
}

void TrainStep::rehearse_passes(const DeviceBatch& part) {
  micro_step_.set_size({});
  try {
    micro_step_.forward(part);
    micro_step_.backward();
  } catch (const std::exception&) {
    micro_step_.invalidate();  // frees the activations; launches nothing on a failed GPU
    throw;
  }
  model_.fp8_scales().drop_amax();  // also of trial passes that failed
  model_.collect_gradients();
  micro_step_.set_size({});
  shape_ = {};
}

void TrainStep::rehearse_stage(const StepSchedule& plan) {
  set(plan);
  model_.cast_weights();
  for (bool ran = false; !ran;) {
    const auto batch = next_batch();
    ran = !batch.inputs.defined() || run_passes(batch);
  }
  model_.fp8_scales().drop_amax();
  model_.collect_gradients();
  optimizer_.zero_gradients();
}

void TrainStep::rehearse_update() {
  const auto scale = optimizer_.grad_scale();
  const auto scale_before = scale.defined() ? scale.clone() : scale;
  reduced_.fill_(std::nan(""));  // NaN loss: the step is skipped
  for (const auto part : {reduce_part, clip_part, update_part}) once_a_step_.run(part);
  if (scale.defined()) scale.copy_(scale_before);  // no gradient overflowed
  communicator_.take_collective_waits();
  once_a_step_.invalidate();
}

// Sets the inputs of the captured graphs, selects the stage's passes and the step's form of the
// update, and invalidates graphs that no longer match: after a change of clipping or rounding, but
// not of stage, since the warm-up's stages return.
void TrainStep::set(const StepSchedule& plan) {
  communicator_.take_collective_waits();  // discards waits between steps
  const bool other_rounding = std::exchange(fake_quant_, plan.fake_quant) != plan.fake_quant;
  const bool other_clipping = std::exchange(clip_norm_, plan.clip_norm) != plan.clip_norm;
  if (other_rounding) micro_step_.invalidate();
  if (other_rounding || other_clipping) once_a_step_.invalidate();
  micro_step_.select(plan.stage);
  once_a_step_.select(2 * static_cast<std::int64_t>(plan.tie) + (plan.updates_all ? 0 : 1));
  optimizer_.choose_rows(plan.updates_all, plan.tie);
  model_.set_stage(plan.stage);
  model_.set_fake_quant(fake_quant_);
  reduced_.zero_();
  lr_scale_.fill_(plan.lr_scale);
  momentum_.fill_(plan.momentum);
  for (std::size_t k = 0; k < plan.target_weights.size(); ++k)
    further_->weights[static_cast<std::int64_t>(k)].fill_(plan.target_weights[k]);
}

DeviceBatch TrainStep::next_batch() {
  const auto phase = phases_.enter(Phase::batch);
  // Not marked as this rank's work: if a collective is stuck, this waits for another rank.
  feed_.wait_for_room();
  const PeerWatch::Work reading(communicator_.watch(), "reading tokens");
  return feed_.next();
}

void TrainStep::forward(const DeviceBatch& batch, std::int64_t part) {
  const auto phase = phases_.enter(Phase::forward, batch.batch_index);
  reduced_[0] += micro_step_.forward(batch, part);
  if (further_) reduced_[3] += micro_step_.objective();
}

void TrainStep::backward() {
  const auto phase = phases_.enter(Phase::backward);
  micro_step_.backward();
}

void TrainStep::reduce(double clock_ms) {
  run_phase(Phase::reduce, [&] {
    // All other ranks contribute zero, so the sum broadcasts rank 0's clock.
    if (communicator_.rank() == 0) reduced_[1].fill_(clock_ms);
    if (stop_signal() != 0) reduced_[2].fill_(1);
    once_a_step_.run(reduce_part);
  });
}

at::Tensor TrainStep::clip() {
  at::Tensor metrics;
  run_phase(Phase::grad_clip, [&] {
    once_a_step_.run(clip_part);
    const auto scale = optimizer_.loss_scale();
    std::vector<at::Tensor> values{reduced_[0], norm_,
                                   skip_,       reduced_[1],
                                   reduced_[2], scale.defined() ? scale : at::zeros_like(skip_)};
    if (further_) values.push_back(reduced_[3]);
    metrics = at::stack(values);
  });
  return metrics;
}

void TrainStep::update(const c10::Event* state_copied) {
  if (state_copied != nullptr) state_copied->block(compute_stream(lr_scale_.device()));
  run_phase(Phase::optimizer, [this] { once_a_step_.run(update_part); });
}

void TrainStep::run_phase(Phase phase, const std::function<void()>& work) {
  {
    const auto scope = phases_.enter(phase);
    work();
  }
  phases_.add_waits(phase, communicator_.take_collective_waits());
}

}  // namespace tg
