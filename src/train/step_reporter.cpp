#include "train/step_reporter.h"

#include <utility>

#include "config/attention_context.h"
#include "config/derived.h"
#include "model/flops.h"

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

void StepReporter::step_ended(const LaunchedStep& launched, const StepMetrics& metrics) {
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
  const auto pass = pass_of(launched.tokens_read);
  if (const auto repeated = repetition_watch_.after_step(step, pass)) report.emit(*repeated);
  const bool streamed = settings.data.loader_order != LoaderOrder::strided;
  report.emit(
      StepEnded{.step = step,
                .loss = metrics.loss,
                .lr_scale = launched.lr_scale,
                .grad_norm = metrics.grad_norm,
                .elapsed_ms = elapsed_ms,
                .tokens = launched.tokens,
                .seq_len = launched.seq_len,
                .flops_per_token = training_flops_per_token(
                    plan, plan.pass(launched.stage), attention_context(settings, launched.seq_len)),
                .loss_scale = metrics.loss_scale,
                .objective = metrics.objective,
                .token_offset = streamed ? std::optional(launched.tokens_read) : std::nullopt,
                .pass = pass});
  const double waited = run_.parts.feeder.waited_ms() - waited_before_ms_;
  const auto stalled = stall_watch_.after_step(step, waited, elapsed_ms);
  if (stalled) report.emit(*stalled);
}

// Counted by the feeder except in the strided order: a micro-batch consumes one token more than it
// trains on, and orders that align to documents skip tokens.
std::int64_t StepReporter::tokens_read(std::int64_t trained) const {
  const bool streamed = run_.settings.data.loader_order != LoaderOrder::strided;
  return streamed ? run_.parts.feeder.state().token_offset : trained;
}

std::optional<std::int64_t> StepReporter::pass_of(std::int64_t tokens_read) const {
  const auto all = run_.parts.tokens.train->known_tokens();
  if (!all) return {};
  return (tokens_read + *all - 1) / *all;
}

}  // namespace tg
