#pragma once
#include "train/run.h"

namespace tg {

// Runs WARMUP_STEPS real steps at the base learning rates and without clipping, as the reference
// implementation does, so that kernels are chosen and memory is allocated before the clock starts,
// and restores the state. A resuming run takes at most two steps, which choose and allocate the
// same. Collective.
void warm_up(Run& run);

}  // namespace tg
