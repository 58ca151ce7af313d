#include "train/run_clock.h"

#include <algorithm>
#include <cassert>
#include <ranges>

#include "base/error.h"
#include "base/is_in.h"
#include "config/derived.h"
#include "config/types/text.h"
#include "optim/schedule.h"
#include "train/readback.h"

namespace tg {

namespace {

double step_ms(std::int64_t steps, double elapsed_ms) {
  return elapsed_ms / static_cast<double>(steps);
}

// The trace may be shorter than the run.
template <class T>
const T& at_step(const std::vector<T>& trace, std::int64_t step) {
  return trace[std::min(static_cast<std::size_t>(step), trace.size() - 1)];
}

}  // namespace

void Pace::ended(std::int64_t steps, double elapsed_ms) {
  if (!ends_.empty() && steps == ends_.back().steps) return;  // called again after a wait
  assert(ends_.empty() || steps > ends_.back().steps);
  ends_.push_back({steps, elapsed_ms});
  if (ends_.size() > kRecent) ends_.pop_front();
  find_longest();
}

void Pace::find_longest() {
  longest_ms_ = 0;
  for (std::size_t i = 1; i < ends_.size(); ++i) {
    const End &from = ends_[i - 1], &to = ends_[i];
    longest_ms_ =
        std::max(longest_ms_, step_ms(to.steps - from.steps, to.elapsed_ms - from.elapsed_ms));
  }
}

double Pace::expected_ms(std::int64_t steps) const {
  assert(known());
  const End &first = ends_.front(), &last = ends_.back();
  const double mean = step_ms(last.steps - first.steps, last.elapsed_ms - first.elapsed_ms);
  return last.elapsed_ms + static_cast<double>(steps - last.steps) * mean;
}

void RunClock::replay(const std::vector<TracedStep>& trace) {
  trace_ = trace;
  if (trace.empty() || !batches_change(settings_)) return;
  const auto world = communicator_.world_size();
  const auto known = batch_shapes(settings_, world);
  for (const auto& step : trace) {
    const auto done = run_progress(settings_.run, std::ssize(traced_shapes_), /*elapsed_ms=*/0);
    const BatchShape shape{.tokens = step.tokens / micro_batches(settings_, world),
                           .seq_len = step.seq_len,
                           .segment_limit = batch_shape(settings_, world, done).segment_limit};
    REQUIRE(is_in(known, shape), ExitCode::config,
            "LR_TRACE: its step {} has {} tokens in rows of {}, which does not match "
            "TRAIN_BATCH_TOKENS={} and TRAIN_SEQ_LEN={}; set them as in that run",
            traced_shapes_.size() + 1, step.tokens, step.seq_len,
            value_text(settings_.run.train_batch_tokens), value_text(settings_.run.train_seq_len));
    traced_shapes_.push_back(shape);
  }
}

double RunClock::lr_scale(std::int64_t step, double elapsed_ms) const {
  return trace_.empty() ? tg::lr_scale(settings_.run, step, elapsed_ms)
                        : at_step(trace_, step).lr_scale;
}

BatchShape RunClock::shape_at(std::int64_t step, double elapsed_ms) const {
  if (!traced_shapes_.empty()) return at_step(traced_shapes_, step);
  return batch_shape(settings_, communicator_.world_size(),
                     run_progress(settings_.run, step, elapsed_ms));
}

std::int64_t RunClock::stage_at(std::int64_t step, double elapsed_ms) const {
  if (!trace_.empty())
    return std::min<std::int64_t>(at_step(trace_, step).stage, std::ssize(stages_) - 1);
  const auto done = schedule_share(settings_.run, step, elapsed_ms);
  const auto begun = std::ranges::find_if(
      stages_ | std::views::reverse, [&](const Stage& stage) { return stage.begun(step, done); });
  return begun.base() - stages_.begin() - 1;
}

void RunClock::start() {
  host_.start();
  started_ms_ = host_.elapsed_ms();
  started_.emplace(compute_stream(device_));
}

Decisions RunClock::decide(std::int64_t step, double elapsed_ms,
                           const WeightAverage& average) const {
  const double cap_ms = training_seconds(settings_.run) * 1000;
  const double scale = lr_scale(step, elapsed_ms);
  return {.stop = cap_ms > 0 && elapsed_ms >= cap_ms,
          .fake_quant = scale < settings_.averaging.late_qat_threshold,
          .swa = average.takes_swa(step + 1, scale),
          .stage = stage_at(step, elapsed_ms),
          .shape = shape_at(step, elapsed_ms)};
}

double RunClock::elapsed_at(std::int64_t step, const WeightAverage& average,
                            const std::function<void()>& read_back) {
  if (settings_.run.max_wallclock_seconds == 0) return 0;  // decides nothing at all
  const bool known_at_once = device_.is_cpu() && communicator_.world_size() == 1;
  if (!known_at_once && pace_.known()) {
    const double expected = pace_.expected_ms(step), tolerance = pace_.tolerance_ms();
    if (decide(step, expected - tolerance, average) == decide(step, expected + tolerance, average))
      return expected;
  }
  read_back();
  return from_rank_0(last_step_ms_);
}

double RunClock::from_rank_0(double value) {
  if (communicator_.world_size() == 1) return value;
  const auto options = at::TensorOptions(device_).dtype(at::kDouble);
  const auto sum = at::full({1}, communicator_.rank() == 0 ? value : 0, options);
  communicator_.sum(sum).wait();
  const PeerWatch::Scope waiting(communicator_.watch());
  return Readback(sum).wait().const_data_ptr<double>()[0];
}

}  // namespace tg
