#include "train/step_launcher.h"

#include <ATen/record_function.h>

#include <utility>

#include "config/derived.h"
#include "model/flops.h"
#include "optim/schedule.h"
#include "train/peer_waits.h"

namespace tg {

namespace {

// Batch, forward and backward are means over micro-steps, as in the reference implementation.
StepTimed timed(std::int64_t step, std::int64_t micro_steps, const StepTimes& times,
                double val_ms) {
  const auto n = static_cast<double>(micro_steps);
  return {.step = step,
          .micro_steps = micro_steps,
          .batch_cpu_ms = times.batch_cpu / n,
          .batch_h2d_ms = times.batch_h2d / n,
          .forward_ms = times.forward / n,
          .backward_ms = times.backward / n,
          // The reference implementation counts gradient reduction in this phase.
          .grad_clip_ms = times.reduce + times.grad_clip,
          .optimizer_ms = times.optimizer,
          .val_ms = val_ms,
          .explicit_sync_ms = times.explicit_sync,
          .data_wait_ms = times.data_wait,
          .comm_ms = times.comm,
          .host_ms = times.host,
          .phases_ms = times.phases(),
          .step_ms = times.step};
}

}  // namespace

void StepLauncher::launch(std::int64_t step, double elapsed_ms, const Decisions& decided) {
  auto& state = run_.state;
  auto& parts = run_.parts;
  if (auto* watch = run_.communicator.watch()) watch->set_step(step);
  const double lr_scale = state.clock.lr_scale(step, elapsed_ms);
  apply(step, elapsed_ms, lr_scale, decided);
  RECORD_USER_SCOPE("train_step");
  const PeerWatch::Scope launching(watch_of_launches(run_.communicator, run_.machine.device));
  parts.phases.begin_step(parts.feeder);
  const auto metrics = run_step(step, elapsed_ms, lr_scale);
  const bool swa_started = update_average(step + 1, lr_scale);
  const auto before = launched_ ? launched_->tokens : state.tokens;
  const auto tokens = before + tokens_of_step(decided.shape);
  LaunchedStep launched{
      .step = step + 1,
      .clock_steps = state.step,
      .tokens = tokens,
      .seq_len = decided.shape.seq_len,
      .stage = state.stage,
      .lr_scale = lr_scale,
      .ended = Event(compute_stream(run_.machine.device)),
      .metrics = Readback(metrics),
      .record = parts.phases.end_step(parts.feeder),
      .val_ms = std::exchange(validation_ms_, 0),
      .tokens_read = counts_tokens_read() ? parts.feeder.state().token_offset : tokens};
  read_back();
  launched_.emplace(std::move(launched));
  if (run_.machine.device.is_cpu()) read_back();
  if (swa_started) run_.report.emit(SwaStarted{step + 1});
}

// Applies batch shape, QAT and stage as of this step.
void StepLauncher::apply(std::int64_t step, double elapsed_ms, double lr_scale,
                         const Decisions& decided) {
  auto& state = run_.state;
  const auto& shape = decided.shape;
  if (shape != state.shape()) {
    // The next step takes longer: prefetched batches are read again and graphs are captured again.
    state.set_shape(shape);
    state.clock.pace_changes();
    run_.parts.validation.release_graph();
    run_.report.emit(BatchesChanged{step, tokens_of_step(shape), shape.seq_len});
  }
  if (!state.fake_quant && decided.fake_quant) {
    state.fake_quant = true;
    run_.report.emit(LateQatStarted{step, lr_scale});
  }
  begin_stage(step, elapsed_ms, decided.stage);
}

void StepLauncher::begin_stage(std::int64_t step, double elapsed_ms, std::int64_t stage) {
  auto& state = run_.state;
  if (stage <= state.stage) return;
  auto& model = run_.parts.weights.model;
  model.inherit_fp8_scales(state.stage, stage);
  state.stage = stage;
  state.clock.pace_changes();
  const auto& log_name = model.plan().stages[static_cast<std::size_t>(stage)].log_name;
  run_.report.emit(StageStarted{step, schedule_share(run_.settings.run, step, elapsed_ms),
                                run_.stage_facts(stage), log_name});
}

at::Tensor StepLauncher::run_step(std::int64_t step, double elapsed_ms, double lr_scale) {
  const auto& optim = run_.settings.optim;
  return run_.parts.step.run({.lr_scale = lr_scale,
                              .momentum = muon_momentum(optim, step, run_.settings.run.iterations),
                              .clip_norm = optim.grad_clip_norm,
                              .clock_ms = run_.state.clock.last_step_ms(),
                              .fake_quant = run_.state.fake_quant,
                              .updates_all = updates_all(optim, step),
                              .tie = tie_at(optim, step),
                              .target_weights = step_target_weights(
                                  run_.settings, run_progress(run_.settings.run, step, elapsed_ms)),
                              .stage = run_.state.stage,
                              .state_copied = &run_.checkpoints.state_copied()});
}

// Returns whether to report the start of SWA.
bool StepLauncher::update_average(std::int64_t steps_done, double lr_scale) {
  auto& average = *run_.state.average;
  const auto phase = run_.parts.phases.enter(Phase::optimizer);
  return average.update(steps_done, lr_scale) &&
         (average.collects_swa() || run_.settings.runtime.record_quirks);
}

std::int64_t StepLauncher::tokens_of_step(const BatchShape& shape) const {
  return tokens_per_step(run_.settings, run_.communicator.world_size(), shape);
}

void StepLauncher::read_back() {
  if (!launched_) return;
  auto launched = std::move(*launched_);
  launched_.reset();
  const auto metrics = [&] {
    const PeerWatch::Scope waiting(run_.communicator.watch());
    return StepMetrics::from_tensor(launched.metrics.wait());
  }();
  auto& state = run_.state;
  state.step = launched.step;
  state.tokens = launched.tokens;
  state.clock.step_ended(launched.ended);
  state.clock.add_rank_0_time(launched.clock_steps, metrics.clock_ms);
  rank_0_ms_ = metrics.clock_ms;
  stop_requested_ |= metrics.stop;
  report(launched, metrics);
  run_.checkpoints.report_written();
}

void StepLauncher::report(const LaunchedStep& launched, const StepMetrics& metrics) {
  const auto step = launched.step;
  const auto& settings = run_.settings;
  const auto& plan = run_.parts.weights.model.plan();
  auto& report = run_.report;
  const double elapsed_ms = run_.state.clock.last_step_ms();
  const auto skipped = run_.state.finite_watch.after_step(step, metrics);
  if (skipped) report.emit(*skipped);
  if (launched.record) {
    report.emit(timed(step, micro_steps(settings, run_.communicator.world_size()),
                      launched.record->times(), launched.val_ms));
  }
  if (!std::exchange(first_step_reported_, true)) report.first_step();
  const auto split = run_.parts.tokens.train->known_tokens();
  const auto pass =
      split ? std::optional((launched.tokens_read + *split - 1) / *split) : std::nullopt;
  if (const auto repeated = repetition_watch_.after_step(step, pass)) report.emit(*repeated);
  report.emit(StepEnded{
      .step = step,
      .loss = metrics.loss,
      .lr_scale = launched.lr_scale,
      .grad_norm = metrics.grad_norm,
      .elapsed_ms = elapsed_ms,
      .tokens = launched.tokens,
      .seq_len = launched.seq_len,
      .flops_per_token = training_flops_per_token(plan, plan.pass(launched.stage),
                                                  attention_context(settings, launched.seq_len)),
      .loss_scale = metrics.loss_scale,
      .objective = metrics.objective,
      .token_offset = counts_tokens_read() ? std::optional(launched.tokens_read) : std::nullopt,
      .pass = pass});
  const double waited = run_.parts.feeder.waited_ms() - waited_before_ms_;
  const auto stalled = stall_watch_.after_step(step, waited, elapsed_ms);
  if (stalled) report.emit(*stalled);
}

}  // namespace tg
