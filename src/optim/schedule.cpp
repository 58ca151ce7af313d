#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "config/derived.h"

namespace tg {

namespace {

// Share of the learning rate that the warm-down leaves.
double left_by_fraction(const RunConfig& run, std::int64_t step, double elapsed_ms) {
  const double steps = static_cast<double>(schedule_iterations(run));
  const bool whole = run.warmdown_whole_steps;
  const double begins = 1 - run.warmdown_frac.value,
               from = whole ? std::floor(steps * begins) / steps : begins,
               warmdown = whole ? 1 - from : run.warmdown_frac.value;
  const double done = schedule_share(run, step, elapsed_ms);
  if (warmdown <= 0 || done < from) return 1.0;
  if (run.lr_floor == 0) return std::max((1 - done) / warmdown, run.min_lr);
  const double most = whole ? 1 : 0.9999;
  return (1 - std::min(done, most)) / warmdown;
}

double left_by_steps(const RunConfig& run, std::int64_t step, double elapsed_ms) {
  if (run.warmdown_iters <= 0) return 1.0;
  const double warmdown = static_cast<double>(run.warmdown_iters);
  if (!schedule_follows_clock(run)) {
    const auto left = std::max<std::int64_t>(schedule_iterations(run) - step, 1);
    return left < run.warmdown_iters ? static_cast<double>(left) / warmdown : 1.0;
  }
  const double remaining_ms = std::max(training_seconds(run) * 1000.0 - elapsed_ms, 0.0);
  const double warmdown_ms =
      warmdown * elapsed_ms / static_cast<double>(std::max<std::int64_t>(step, 1));
  return remaining_ms <= warmdown_ms ? remaining_ms / std::max(warmdown_ms, 1e-9) : 1.0;
}

}  // namespace

double lr_scale(const RunConfig& run, std::int64_t step, double elapsed_ms) {
  const double from = run.lr_scale.at(run_progress(run, step, elapsed_ms));
  if (run.warmdown_frac.automatic) return from * left_by_steps(run, step, elapsed_ms);
  const double left = left_by_fraction(run, step, elapsed_ms);
  return from * left + (1 - left) * run.lr_floor;
}

double muon_momentum(const OptimConfig& optim, std::int64_t step, std::int64_t iterations) {
  const auto ramp = [](std::int64_t done, std::int64_t steps) {
    return steps > 0 ? static_cast<double>(done) / static_cast<double>(steps) : 1.0;
  };
  const double risen = std::min({ramp(step, optim.muon_momentum_warmup_steps),
                                 ramp(iterations - step, optim.muon_momentum_cooldown_steps), 1.0});
  return (1 - risen) * optim.muon_momentum_warmup_start + risen * optim.muon_momentum;
}

bool updates_all(const OptimConfig& optim, std::int64_t step) {
  return (step + 1) % optim.adam_every == 0;
}

Tie tie_at(const OptimConfig& optim, std::int64_t step) {
  const auto last = optim.untie_embeddings_at;
  if (last == 0 || step > last) return Tie::none;
  return step < last ? Tie::tied : Tie::splits;
}

}  // namespace tg
