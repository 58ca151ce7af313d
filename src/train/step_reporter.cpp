#include "train/step_reporter.h"

#include <utility>

#include "config/derived.h"

namespace tg {

void StepReporter::step_ended(const LaunchedStep& launched, const StepMetrics& metrics) {
  const auto step = launched.step;
  const auto& settings = run_.settings;
  auto& report = run_.report;
  const double elapsed_ms = run_.state.clock.last_step_ms();
  const auto skipped = run_.state.finite_watch.after_step(step, metrics);
  if (skipped) report.emit(*skipped);
  if (launched.record) {
    report.emit(StepTimed{step, micro_steps(settings, run_.communicator.world_size()),
                          launched.record->times(), launched.val_ms});
  }
  if (!std::exchange(first_step_reported_, true)) report.first_step();
  const auto pass = pass_of(launched.tokens_read);
  if (const auto repeated = repetition_watch_.after_step(step, pass)) report.emit(*repeated);
  const bool streamed = settings.data.loader_order == LoaderOrder::stream;
  report.emit(
      StepEnded{.step = step,
                .loss = metrics.loss,
                .lr_scale = launched.lr_scale,
                .grad_norm = metrics.grad_norm,
                .elapsed_ms = elapsed_ms,
                .tokens = launched.tokens,
                .seq_len = launched.seq_len,
                .flops_per_token = training_flops_per_token(settings.model, launched.seq_len),
                .loss_scale = metrics.loss_scale,
                .token_offset = streamed ? std::optional(launched.tokens_read) : std::nullopt,
                .pass = pass});
  const double waited = run_.parts.feeder.waited_ms() - waited_before_ms_;
  const auto stalled = stall_watch_.after_step(step, waited, elapsed_ms);
  if (stalled) report.emit(*stalled);
}

// The feeder counts them in the stream order, where a micro-batch consumes one token more than it
// trains on.
std::int64_t StepReporter::tokens_read(std::int64_t trained) const {
  const bool streamed = run_.settings.data.loader_order == LoaderOrder::stream;
  return streamed ? run_.parts.feeder.state().token_offset : trained;
}

std::optional<std::int64_t> StepReporter::pass_of(std::int64_t tokens_read) const {
  const auto all = run_.parts.tokens.train->known_tokens();
  if (!all) return {};
  return (tokens_read + *all - 1) / *all;
}

}  // namespace tg
