#pragma once
#include "train/report.h"
#include "train/run_parts.h"
#include "train/run_state.h"

namespace tg {

// WARMUP_STEPS real steps at the base learning rates and without clipping, as in the reference
// implementation, so that kernels are chosen and memory is allocated before the clock starts; then
// the state is rewound. A run that resumes takes two of them, which choose and allocate the same.
// Collective.
void warm_up(const Settings& settings, bool resumes, at::Device device, Communicator& communicator,
             TrainStep& train_step, RunState& state, Report& report);

}  // namespace tg
