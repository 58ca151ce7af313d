#include "train/step_reporter.h"

#include <utility>

#include "config/derived.h"
#include "model/flops.h"

namespace tg {

void StepReporter::step_ended(const LaunchedStep& launched, const StepMetrics& metrics) {
  const auto step = launched.step;
  const double elapsed_ms = state_.clock.last_step_ms();
  const auto skipped = state_.finite_watch.after_step(step, metrics);
  if (skipped) report_.emit(*skipped);
  if (launched.record) {
    report_.emit(StepTimed{step, micro_steps(settings_, world_size_), launched.record->times(),
                           launched.val_ms});
  }
  if (!std::exchange(first_step_reported_, true)) report_.first_step();
  const auto pass = pass_of(launched.tokens_read);
  if (const auto repeated = repetition_watch_.after_step(step, pass)) report_.emit(*repeated);
  const bool streamed = settings_.data.loader_order == LoaderOrder::stream;
  report_.emit(
      StepEnded{.step = step,
                .loss = metrics.loss,
                .lr_scale = launched.lr_scale,
                .grad_norm = metrics.grad_norm,
                .elapsed_ms = elapsed_ms,
                .tokens = launched.tokens,
                .seq_len = launched.seq_len,
                .flops_per_token = training_flops_per_token(settings_.model, launched.seq_len),
                .loss_scale = metrics.loss_scale,
                .token_offset = streamed ? std::optional(launched.tokens_read) : std::nullopt,
                .pass = pass});
  const double waited = parts_.feeder.waited_ms() - waited_before_ms_;
  const auto stalled = stall_watch_.after_step(step, waited, elapsed_ms);
  if (stalled) report_.emit(*stalled);
}

// The feeder counts them in the stream order, where a micro-batch consumes one token more than it
// trains on.
std::int64_t StepReporter::tokens_read(std::int64_t trained) const {
  const bool streamed = settings_.data.loader_order == LoaderOrder::stream;
  return streamed ? parts_.feeder.state().token_offset : trained;
}

std::optional<std::int64_t> StepReporter::pass_of(std::int64_t tokens_read) const {
  const auto all = parts_.tokens.train->known_tokens();
  if (!all) return {};
  return (tokens_read + *all - 1) / *all;
}

}  // namespace tg
