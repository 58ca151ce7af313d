#include "train/run_clock.h"

#include "train/readback.h"

namespace tg {

void RunClock::start() {
  host_.start();
  started_ms_ = host_.elapsed_ms();
  started_.emplace(compute_stream(device_));
}

void RunClock::step_ended(const Event& ended) {
  last_step_ms_ = started_ms_ + started_->ms_until(ended);
}

Decisions RunClock::decide(std::int64_t step, double elapsed_ms,
                           const WeightAverage& average) const {
  const double cap_ms = settings_.run.max_wallclock_seconds * 1000;
  const double scale = lr_scale(step, elapsed_ms);
  return {.stop = cap_ms > 0 && elapsed_ms >= cap_ms,
          .fake_quant = scale < settings_.averaging.late_qat_threshold,
          .swa = average.takes_swa(step + 1, scale)};
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
