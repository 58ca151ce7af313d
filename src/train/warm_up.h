#pragma once
#include "train/run.h"

namespace tg {

// WARMUP_STEPS real steps at the base learning rates and without clipping, as in the reference
// implementation, so that kernels are chosen and memory is allocated before the clock starts; then
// the state is rewound. A run that resumes takes two of them, which choose and allocate the same.
// Collective.
void warm_up(Run& run);

}  // namespace tg
