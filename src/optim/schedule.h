#pragma once
#include <cstdint>

#include "config/settings.h"

namespace tg {

// Learning-rate factor before step `step` (0-based), `elapsed_ms` after the clock started. If the
// schedule follows the clock: remaining/warm-down, once the remaining time is at most the time of
// WARMDOWN_ITERS steps at the average speed so far. Else linear over the last WARMDOWN_ITERS steps
// of the schedule; steps beyond its end keep the last factor. With WARMDOWN_FRAC, for the fraction
// f of the schedule's steps or time that is done:
//   1 while f < 1 − WARMDOWN_FRAC, then max((1 − f) / WARMDOWN_FRAC, MIN_LR)
// or, with LR_FLOOR, u + (1 − u)·LR_FLOOR with u = (1 − min(f, 0.9999)) / WARMDOWN_FRAC, as in the
// speedrun's record of 2025-11-10; with WARMDOWN_WHOLE_STEPS, as in the record of 2026-08-01, the
// warm-down begins with step ⌊steps·(1 − WARMDOWN_FRAC)⌋ and u ends at 0. All of it but LR_FLOOR is
// multiplied by LR_SCALE.
double lr_scale(const RunConfig& run, std::int64_t step, double elapsed_ms);

// Muon's momentum at `step` (0-based) of `iterations`: rises linearly from
// MUON_MOMENTUM_WARMUP_START over MUON_MOMENTUM_WARMUP_STEPS, and falls back to it over the last
// MUON_MOMENTUM_COOLDOWN_STEPS.
double muon_momentum(const OptimConfig& optim, std::int64_t step, std::int64_t iterations);

// Returns whether `step` (0-based) also updates the parameters of ADAM_EVERY: true for every
// ADAM_EVERY-th step.
bool updates_all(const OptimConfig& optim, std::int64_t step);

// What a step does with the rows of Update::tied_to.
enum class Tie {
  none,    // updates them on their own
  tied,    // updates them as one with the rows that they are tied to
  splits,  // likewise, and then copies the optimizer state: later steps update both
};
// Of `step` (0-based), by UNTIE_EMBEDDINGS_AT.
Tie tie_at(const OptimConfig& optim, std::int64_t step);

}  // namespace tg
