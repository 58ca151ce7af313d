#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "config/settings.h"

namespace tg {

// The factor on every learning rate before step `step` (0-based), `elapsed_ms` after the clock
// started. Where the schedule follows the clock: remaining/warm-down if the remaining time is at
// most the time that WARMDOWN_ITERS steps take at the average so far. Else linear over the last
// WARMDOWN_ITERS steps of the schedule, whose last factor stays beyond its end. With WARMDOWN_FRAC,
// of the share f of the schedule's steps or time that is done:
//   1 while f < 1 − WARMDOWN_FRAC, then max((1 − f) / WARMDOWN_FRAC, MIN_LR)
// or, with LR_FLOOR, u + (1 − u)·LR_FLOOR of u = (1 − min(f, 0.9999)) / WARMDOWN_FRAC, as in the
// speedrun's record of 2025-11-10.
double lr_scale(const RunConfig& run, std::int64_t step, double elapsed_ms);

// lr_scale(), or a trace that is replayed: one factor per step; the last one stays.
class LrSchedule {
 public:
  explicit LrSchedule(const RunConfig& run) : run_(run) {}

  void replay(std::vector<double> trace) { trace_ = std::move(trace); }
  double scale(std::int64_t step, double elapsed_ms) const;

 private:
  const RunConfig& run_;
  std::vector<double> trace_;  // empty: none
};

// Muon's momentum at `step` (0-based) of `iterations`: linear from MUON_MOMENTUM_WARMUP_START over
// MUON_MOMENTUM_WARMUP_STEPS, and back to it over the last MUON_MOMENTUM_COOLDOWN_STEPS.
double muon_momentum(const OptimConfig& optim, std::int64_t step, std::int64_t iterations);

// Whether `step` (0-based) updates what ADAM_EVERY says as well: it ends so many steps.
bool updates_all(const OptimConfig& optim, std::int64_t step);

}  // namespace tg
